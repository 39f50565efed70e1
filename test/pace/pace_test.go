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

// A crowded machine gets the next test later than one that is only busy.
func TestTired(t *testing.T) {
	if load() <= 0 {
		t.Error("no load of this machine")
	}
	for _, c := range []struct {
		waited time.Duration
		load   float64
		want   bool
	}{{patience - 1, 1, false}, {patience, 1, true}, {patience, crowd, false}, {longer - 1, crowd, false}, {longer, crowd, true}} {
		if got := tired(c.waited, c.load); got != c.want {
			t.Errorf("after %s at load %v: %v", c.waited, c.load, got)
		}
	}
}
