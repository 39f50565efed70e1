//go:build linux

package pace

import (
	"os/exec"
	"runtime"
	"testing"
	"time"
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

// On a busy machine the next test begins the later, the more threads want each processor, and not never.
func TestPause(t *testing.T) {
	for runnable, want := range map[float64]time.Duration{0: headway, 0.5: headway, 3: 3 * headway, 3.1: longest, 500: longest} {
		if got := pause(runnable); got != want {
			t.Errorf("with %v threads for each processor: %v", runnable, got)
		}
	}
}

// Threads that spin are counted, and the processors are busy then.
func TestLook(t *testing.T) {
	for range 2 * runtime.NumCPU() {
		c := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer c.Wait()
		defer c.Process.Kill()
	}
	if busy, runnable := look(); !busy || runnable < 1 {
		t.Errorf("busy: %v, %v threads for each processor", busy, runnable)
	}
}
