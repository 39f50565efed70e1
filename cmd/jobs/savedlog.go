package jobs

import (
	"bytes"
	"context"
	"io"
	"path/filepath"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/dashboardclient/logstream"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// mostAttempts bounds how many attempts before the last are looked at: their number may be a lie of another user.
const mostAttempts = 1000

// lastOutput is the last attempt with saved output, if an earlier one than the run's last; else 0.
func lastOutput(ctx context.Context, s *launcher.Status, open launcher.LogOpener) int {
	for which, n := 0, s.Attempt; n >= 1 && n > s.Attempt-mostAttempts && ctx.Err() == nil; n-- {
		if log, err := open(ctx, which, 0); err == nil {
			got, _ := io.ReadFull(log, make([]byte, 1)) // unreadable output counts as none
			_ = log.Close()
			if got > 0 {
				return which
			}
		}
		which = n - 1
	}
	return 0
}

// tailLog shows the last lines of the saved output; 0: all.
func tailLog(ctx context.Context, w io.Writer, s *launcher.Status, open launcher.LogOpener, attempt, lines int) error {
	if lines == 0 {
		return app.CopyLog(ctx, w, s, open, attempt)
	}
	t, starts := &tail{lines: lines, most: mostKept}, logstream.NewLineStarts(lines)
	if err := app.CopyLog(ctx, io.MultiWriter(t, starts), s, open, attempt); err != nil {
		return err
	}
	if t.left {
		return app.CopyLog(ctx, &skipping{w: w, left: starts.First()}, s, open, attempt)
	}
	_, err := w.Write(t.last())
	return err
}

// mostKept is how many bytes of last lines are kept in memory. Longer ones are read a second time.
const mostKept = 1 << 20

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

// attemptCode is the exit code of -f after the output of an ended attempt: the run's code after the last (0 is the last, too).
func attemptCode(s *launcher.Status, attempt int) error {
	for _, old := range s.Attempts {
		switch {
		case old.Attempt != attempt || attempt == s.Attempt:
		case old.ExitCode != nil:
			return app.ExitOrNil(*old.ExitCode)
		default:
			return app.ExitOrNil(runstate.CodeOf(old.Cause))
		}
	}
	if s.Exit == nil {
		return nil
	}
	return app.ExitOrNil(s.Exit.Code)
}

// nodeLogPlace is the place of the nodes' saved logs, if they are files.
func nodeLogPlace(r *launcher.Result) string {
	if r.Log.Path == "" {
		return ""
	}
	return " at " + filepath.Join(filepath.Dir(r.Log.Path), "nodes")
}
