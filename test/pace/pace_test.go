//go:build linux

package pace

import (
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/filelock"
)

// The processors' times advance, and together as the clock does on at least one processor.
func TestTimesAdvance(t *testing.T) {
	sum := func() float64 {
		busy, err := Busy()
		if err != nil {
			t.Fatal(err)
		}
		now, err := stat()
		if err != nil {
			t.Fatal(err)
		}
		return busy + now.unused()
	}
	before := sum()
	time.Sleep(300 * time.Millisecond)
	if passed := sum() - before; passed < 0.1 {
		t.Errorf("%.2f s of processors in 0.3 s", passed)
	}
}

// As many tests have a place as there are places, and one that has ended gives its place back; a test that waits for its subtests leaves its place to them.
func TestPlaces(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var got []*filelock.Lock
	for {
		lock, err := place()
		if err != nil {
			t.Fatal(err)
		}
		if lock == nil {
			break
		}
		got = append(got, lock)
	}
	if want := int(each * float64(runtime.NumCPU())); len(got) != want {
		t.Fatalf("%d places, want %d", len(got), want)
	}
	for _, lock := range got[1:] {
		defer lock.Release()
	}
	isFree := func(want bool, when string) {
		t.Helper()
		lock, err := place()
		if err != nil || (lock != nil) != want {
			t.Errorf("%s: a place is free: %v (%v)", when, lock != nil, err)
		}
		if lock != nil {
			lock.Release()
		}
	}
	t.Run("outer", func(t *testing.T) {
		take(t, got[0])
		isFree(false, "while a test has the last one")
		t.Run("inner", func(t *testing.T) {
			leaveToSubtests(t.Name())
			isFree(true, "while it waits for its subtest")
			lock, err := place()
			if err != nil || lock == nil {
				t.Fatal(err)
			}
			take(t, lock)
		})
		isFree(true, "when the subtest has ended")
	})
}

// The processors are busy while threads spin.
func TestBusyProcessors(t *testing.T) {
	for range 2 * runtime.NumCPU() {
		c := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer c.Wait()
		defer c.Process.Kill()
	}
	if !busy() {
		t.Error("not busy")
	}
}
