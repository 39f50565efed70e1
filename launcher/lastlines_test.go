package launcher

import (
	"io"
	"runtime"
	"strings"
	"testing"
)

// TestLastLines: of a log whose size is known only as much is read of its end as the lines need; lines that are longer than what is kept in memory are shown whole.
func TestLastLines(t *testing.T) {
	long := strings.Repeat("x", 3*mostKept)
	for _, c := range []struct {
		text  string
		lines int
		want  string
		reads string // where each reading begins, from the end: w, W... windows, 0 the beginning
	}{
		{"a\nb\n" + long, 2, "b\n" + long, "www0 0"}, {long + "\nb\nc\n", 2, "b\nc\n", "w"}, {"a\n" + long + "\nc", 2, long + "\nc", "www0 0"}, {long, 2, long, "www0 0"},
		{strings.Repeat("line\n", 100_000), 3, "line\nline\nline\n", "w"}, {"a\nb", 1, "b", "0"}, {"", 5, "", "0"},
		{"first\n" + strings.Repeat("y", firstWindow-1) + "\n", 1, strings.Repeat("y", firstWindow-1) + "\n", "w0"},
	} {
		for _, size := range []int64{0, int64(len(c.text))} {
			var got strings.Builder
			var began []int64
			err := LastLines(&got, c.lines, size, func(w io.Writer, from int64) error {
				began = append(began, from)
				_, err := io.WriteString(w, c.text[from:])
				return err
			})
			if err != nil || got.String() != c.want {
				t.Errorf("the last %d lines of %d bytes: %d bytes, not %d; %v", c.lines, len(c.text), got.Len(), len(c.want), err)
			}
			if most := strings.Count(c.reads, "w") + strings.Count(c.reads, "0"); size > 0 && len(began) > most {
				t.Errorf("the last %d lines of %d bytes were read from %v", c.lines, len(c.text), began)
			}
			if size > 0 && c.reads == "w" && began[0] != size-firstWindow {
				t.Errorf("the last %d lines of %d bytes were read from %v", c.lines, len(c.text), began)
			}
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

// TestLastLinesMemory: the last lines may be one of 400 MB; it is shown in pieces, and not kept.
func TestLastLinesMemory(t *testing.T) {
	const size = 400 << 20
	piece := []byte(strings.Repeat("x", 1<<20))
	var shown counter
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := LastLines(&shown, 3, size, func(w io.Writer, from int64) error {
		for left := size - from; left > 0; left -= int64(len(piece)) {
			if _, err := w.Write(piece[:min(left, int64(len(piece)))]); err != nil {
				return err
			}
		}
		return nil
	})
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; err != nil || shown != size || used > 128<<20 {
		t.Errorf("%d bytes were shown, with %d MiB of memory; %v", shown, used>>20, err)
	}
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
