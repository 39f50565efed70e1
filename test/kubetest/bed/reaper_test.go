package bed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/rayctl/rayctl/test/needs"
)

// abandoned is a testbed of one process, like one left by a killed test.
func abandoned(t *testing.T, keep bool) *Bed {
	t.Helper()
	needs.Root(t)
	t.Setenv("RAYCTL_KUBE_DIR", fmt.Sprintf("/tmp/rkt%d", os.Getpid()))
	b, err := Open(t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Down(context.Background()); err != nil {
			t.Error(err)
		}
		os.Remove(b.Dir + ".lock")
	})
	if err := os.MkdirAll(b.path("logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.idle = 0
	if err := b.save(keep); err != nil {
		t.Fatal(err)
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.spawn("sleep", command{argv: []string{sleep, "600"}}); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAnIdleTestbedIsTakenDown(t *testing.T) {
	b := abandoned(t, false)
	if !b.Running("sleep") {
		t.Fatal("the testbed's process does not run")
	}
	if err := b.Reap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := b.Leftovers(); len(left) > 0 {
		t.Errorf("left on the machine: %v", left)
	}
}

func TestAKeptTestbedStays(t *testing.T) {
	b := abandoned(t, true)
	if err := b.Reap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !b.Running("sleep") {
		t.Error("the testbed is gone though it was to be kept")
	}
}
