package remote

import (
	"bytes"
	"io"
	"strings"
)

// mark begins the output of a command that Marked prepares: a login shell's startup files (.bashrc, .tcshrc) may print something before, with or without a
// line break at its end.
const mark = "--rayctl-begins--"

// Marked is a command line whose output is what comes after the mark.
func Marked(argv ...string) []string {
	return append([]string{"sh", "-c", "printf %s " + mark + `; exec "$@"`, "sh"}, argv...)
}

// AfterMark is the output itself. All of it is noise where there is no mark: the command did not start.
func AfterMark(output string) string {
	_, after, _ := strings.Cut(output, mark)
	return after
}

// SkipMark reads a command's output from a stream. A read that is interrupted loses nothing.
type SkipMark struct {
	From  io.Reader
	held  []byte
	found bool
}

func (s *SkipMark) Read(p []byte) (int, error) {
	for !s.found {
		more := make([]byte, 4<<10)
		n, err := s.From.Read(more)
		s.held = append(s.held, more[:n]...)
		if _, after, found := bytes.Cut(s.held, []byte(mark)); found {
			s.held, s.found = after, true
		} else {
			s.held = s.held[max(0, len(s.held)-len(mark)+1):]
		}
		if err != nil && !s.found {
			return 0, err
		}
	}
	if len(s.held) > 0 {
		n := copy(p, s.held)
		s.held = s.held[n:]
		return n, nil
	}
	return s.From.Read(p)
}
