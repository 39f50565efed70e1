package launcher

import (
	"bytes"
	"io"

	"github.com/rayctl/rayctl/dashboardclient/logstream"
)

// mostKept is how many bytes of last lines are kept in memory. Longer ones are read a second time.
const mostKept = 1 << 20

// firstWindow is how much of a log's end is read at first. It is enough for most last lines.
const firstWindow = 64 << 10

// LastLines writes the last lines of a log, which has so many bytes (0: not known), to w. read writes the log from a byte on to its argument.
func LastLines(w io.Writer, lines int, size int64, read func(w io.Writer, from int64) error) error {
	end, err := findLastLines(lines, size, read)
	if err != nil {
		return err
	}
	if end.kept == nil {
		return read(&skipping{w: w, left: end.skip}, end.from)
	}
	_, err = w.Write(end.kept)
	return err
}

// lastLines are what findLastLines has found: the lines themselves, or where they are.
type lastLines struct {
	kept []byte // nil: they are too long
	from int64  // the byte of the log from which it was read at last
	skip int64  // bytes after it before the first of the lines, as read writes them
}

// findLastLines reads more and more of the end of a log, until that has the lines whole.
func findLastLines(lines int, size int64, read func(w io.Writer, from int64) error) (*lastLines, error) {
	for window := int64(firstWindow); ; window *= 16 {
		from := max(0, size-window)
		t, starts := &tail{lines: lines, most: mostKept}, logstream.NewLineStarts(lines)
		if err := read(io.MultiWriter(t, starts), from); err != nil {
			return nil, err
		}
		if from > 0 && starts.Count() <= lines {
			continue // the first line may begin before what was read
		}
		end := &lastLines{from: from, skip: starts.First()}
		if !t.left {
			end.kept = append([]byte{}, t.last()...)
		}
		return end, nil
	}
}

// skipping passes on what is written to it, without the beginning.
type skipping struct {
	w    io.Writer
	left int64
}

func (s *skipping) Write(p []byte) (int, error) {
	passed := min(s.left, int64(len(p)))
	s.left -= passed
	if passed == int64(len(p)) {
		return len(p), nil
	}
	n, err := s.w.Write(p[passed:])
	return int(passed) + n, err
}

// tail keeps the last lines written to it, in about twice their memory.
type tail struct {
	lines int
	buf   []byte
	limit int  // length at which buf is cut again
	most  int  // bytes of lines to keep, 0: any number
	left  bool // the lines are longer: buf has nothing
}

func (t *tail) Write(p []byte) (int, error) {
	if t.left {
		return len(p), nil
	}
	t.buf = append(t.buf, p...)
	if len(t.buf) > t.limit {
		t.buf = append([]byte(nil), t.last()...)
		t.limit = 2*len(t.buf) + 1<<20
		if t.most > 0 && len(t.buf) > t.most {
			t.left, t.buf = true, nil
		}
	}
	return len(p), nil
}

// last returns the last lines so far, including an unfinished one.
func (t *tail) last() []byte {
	end := len(t.buf)
	if end > 0 && t.buf[end-1] == '\n' {
		end--
	}
	for range t.lines {
		end = bytes.LastIndexByte(t.buf[:max(end, 0)], '\n')
		if end < 0 {
			return t.buf
		}
	}
	return t.buf[end+1:]
}
