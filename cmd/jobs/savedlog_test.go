package jobs

import (
	"context"
	"io"
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
	} {
		open := func(_ context.Context, attempt int, _ int64) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(test.saved[attempt])), nil
		}
		if got := lastOutput(t.Context(), &launcher.Status{Attempt: test.last}, open); got != test.want {
			t.Errorf("%v of %d: attempt %d, want %d", test.saved, test.last, got, test.want)
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
