package jobs

import (
	"context"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
)

// TestLastOutput: if the last attempt of a run had no output, `logs` shows that of an earlier one.
func TestLastOutput(t *testing.T) {
	for _, test := range []struct {
		saved map[int]string // by attempt; 0: the last
		last  int
		want  int
	}{
		{map[int]string{0: "now", 1: "before"}, 2, 0},
		{map[int]string{1: "first"}, 1, 0},
		{map[int]string{1: "first", 2: "second"}, 3, 2},
		{map[int]string{1: "first"}, 3, 1},
		{nil, 3, 0},
		{nil, math.MaxInt, 0},
	} {
		open := func(_ context.Context, attempt int, _ int64) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(test.saved[attempt])), nil
		}
		if got := lastOutput(t.Context(), &launcher.Status{Attempt: test.last}, open); got != test.want {
			t.Errorf("%v of %d: attempt %d, want %d", test.saved, test.last, got, test.want)
		}
	}
}
