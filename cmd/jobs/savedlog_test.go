package jobs

import (
	"context"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
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

// TestLongTail: last lines that are longer than what is kept in memory are shown whole, and from their beginning.
func TestLongTail(t *testing.T) {
	long := strings.Repeat("x", 3*mostKept)
	for text, want := range map[string]string{"a\nb\n" + long: "b\n" + long, long + "\nb\nc\n": "b\nc\n", "a\n" + long + "\nc": long + "\nc", long: long} {
		open := func(_ context.Context, _ int, _ int64) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text)), nil
		}
		var got strings.Builder
		if err := tailLog(t.Context(), &got, &launcher.Status{Attempt: 1, Job: &runstate.Job{SubmissionID: "x-1"}}, open, 0, 2); err != nil {
			t.Fatal(err)
		}
		if got.String() != want {
			t.Errorf("the last 2 lines of %d bytes: %d bytes, not %d", len(text), got.Len(), len(want))
		}
	}
}

func TestTail(t *testing.T) {
	for _, c := range []struct {
		text  string
		lines int
		want  string
	}{
		{"a\nb\nc\n", 2, "b\nc\n"}, {"a\nb\nc", 2, "b\nc"}, {"a\n", 5, "a\n"}, {"", 1, ""}, {"\n\n\n", 2, "\n\n"},
	} {
		tl := &tail{lines: c.lines}
		for i := range len(c.text) {
			if _, err := tl.Write([]byte(c.text[i : i+1])); err != nil {
				t.Fatal(err)
			}
		}
		if got := string(tl.last()); got != c.want {
			t.Errorf("last %d of %q: %q", c.lines, c.text, got)
		}
	}
}
