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
