package logstream

import (
	"strings"
	"testing"
)

// TestStripper pushes each log whole, and byte by byte.
func TestStripper(t *testing.T) {
	const header = "2026-11-21 12:21:04,591\tINFO job_manager.py:581 -- Runtime env is setting up.\n"
	const line = "Running entrypoint for job j1: echo \"a\nb\"\n"
	for name, test := range map[string]struct {
		raw, want string
		offset    int64
	}{
		"both":                 {header + line + "out\n", "out\n", 0},
		"header only":          {header + "out", "out", 0},
		"nothing else":         {header + line, "", 0},
		"none":                 {"out\n", "out\n", 0},
		"empty":                {"", "", 0},
		"output first":         {header + "out\n" + line + "more\n", "out\nmore\n", 0},
		"inside a line":        {header + "ou" + line + "t\n", "out\n", 0},
		"only once":            {header + line + line, line, 0},
		"another job's":        {header + "Running entrypoint for job j2: x\n", "Running entrypoint for job j2: x\n", 0},
		"begins like it":       {header + "Running entry", "Running entry", 0},
		"header not the first": {"out\n" + header, "out\n" + header, 0},
		"begins like a header": {"2026-11-21 12", "2026-11-21 12", 0},
		"a driver's own":       {"2026-11-21 12:21:04,591\tINFO train.py:1 -- hi\n", "2026-11-21 12:21:04,591\tINFO train.py:1 -- hi\n", 0},
		"from an offset":       {header + line + "x", header + "x", 7},
		"far from the start":   {header + strings.Repeat("x", 2<<20) + line + "y", strings.Repeat("x", 2<<20) + "y", 0},
		"from far off":         {line + "y", "y", 2 << 20},
	} {
		for _, size := range []int{1, 3, len(test.raw) + 1} {
			s := NewStripper("j1", "echo \"a\nb\"", test.offset)
			var got strings.Builder
			for rest := test.raw; rest != ""; {
				n := min(size, len(rest))
				got.Write(s.push([]byte(rest[:n])))
				rest = rest[n:]
			}
			got.Write(s.flush())
			if got.String() != test.want {
				t.Errorf("%s, in pieces of %d: %.200q, not %.200q", name, size, got.String(), test.want)
			}
		}
	}
}

func TestLineStarts(t *testing.T) {
	for _, test := range []struct {
		text string
		keep int
		want int64
	}{{"", 3, 0}, {"a\n", 3, 0}, {"a\nb\nc", 3, 0}, {"a\nb\nc\n", 2, 2}, {"a\nb\nc\nd", 2, 4}, {"a\nb\nc\nd\ne\n", 3, 4}, {"\n\n\n", 1, 2}} {
		for _, size := range []int{1, 100} {
			s := &lineStarts{keep: test.keep}
			for rest := test.text; rest != ""; {
				n := min(size, len(rest))
				_, _ = s.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			if s.first() != test.want {
				t.Errorf("the last %d lines of %q begin at %d, not %d", test.keep, test.text, s.first(), test.want)
			}
		}
	}
}

// TestTailOfDriver: a late line of Ray's, at the end or inside of a line, does not count as one of the driver's last lines.
func TestTailOfDriver(t *testing.T) {
	const header = "2026-11-21 12:21:04,591\tINFO job_manager.py:581 -- Runtime env is setting up.\n"
	const line = "Running entrypoint for job j1: echo \"a\nb\"\n"
	for raw, want := range map[string]string{
		header + "1\n2\n3\n" + line:         "2\n3\n",
		header + "1\n2\n" + line + "3\n":    "2\n3\n",
		header + line + "1\n2\n3\n":         "2\n3\n",
		header + "1\n22" + line + "22\n3\n": "2222\n3\n",
		header + "1\n2" + line + "\n3\n4":   "3\n4",
		header + line + "1\n":               "1\n",
		line:                                "",
		"1\n2\n3\n":                         "2\n3\n",
	} {
		for _, size := range []int{1, 5, 1000} {
			s := &lineStarts{keep: 2, strip: NewStripper("j1", "echo \"a\nb\"", 0)}
			for rest := raw; rest != ""; {
				n := min(size, len(rest))
				_, _ = s.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			from := s.first()
			after := NewStripper("j1", "echo \"a\nb\"", from)
			got := string(after.push([]byte(raw[from:]))) + string(after.flush())
			if got != want {
				t.Errorf("the last 2 lines of %q: %q, not %q", raw, got, want)
			}
		}
	}
}
