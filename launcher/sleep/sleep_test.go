package sleep_test

import (
	"context"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/sleep"
)

func TestFor(t *testing.T) {
	if !sleep.For(t.Context(), time.Millisecond) {
		t.Error("a context that lives")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if sleep.For(ended, time.Hour) {
		t.Error("a context that has ended")
	}
}
