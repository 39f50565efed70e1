//go:build linux

package pace

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/sharedfile"
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
	var got []*sharedfile.Lock
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
	if len(got) != runtime.NumCPU() {
		t.Fatalf("%d places on %d processors", len(got), runtime.NumCPU())
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

// A process is a head by its program's name, as Ray's GCS has it.
func TestHeads(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	if sleep, err = filepath.EvalSymlinks(sleep); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "gcs_server")
	if err := os.Symlink(sleep, program); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program, "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	here := filepath.Join("/proc", strconv.Itoa(c.Process.Pid))
	if !slices.Contains(heads(), here) {
		t.Errorf("%s is not among %q", here, heads())
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	if slices.Contains(heads(), here) {
		t.Errorf("%s has ended", here)
	}
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
