//go:build linux

package pace

import (
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
		unused, err := idle()
		if err != nil {
			t.Fatal(err)
		}
		return busy + unused
	}
	before := sum()
	time.Sleep(300 * time.Millisecond)
	if passed := sum() - before; passed < 0.1 {
		t.Errorf("%.2f s of processors in 0.3 s", passed)
	}
}

// On a busy machine the next test begins the later, the more processes want each processor, and not never.
func TestPause(t *testing.T) {
	if load() <= 0 {
		t.Error("no load of this machine")
	}
	for load, want := range map[float64]time.Duration{0: headway, 0.5: headway, 3: 3 * headway, 500: longest} {
		if got := pause(load); got != want {
			t.Errorf("at load %v: %v", load, got)
		}
	}
}
