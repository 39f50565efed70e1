package jobs

import (
	"context"
	"io"
	"path/filepath"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// lastOutput is the last attempt with saved output, if an earlier one than the run's last; else 0.
func lastOutput(ctx context.Context, s *launcher.Status, open launcher.LogOpener) int {
	for which, n := 0, s.Attempt; n >= 1 && n > s.Attempt-launcher.MostAttempts && ctx.Err() == nil; n-- {
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

// tailLog shows the last lines of the saved output, which has size bytes (0: not known); 0 lines: all.
func tailLog(ctx context.Context, w io.Writer, s *launcher.Status, open launcher.LogOpener, attempt, lines int, size int64) error {
	if lines == 0 {
		return app.CopyLog(ctx, w, s, open, attempt, 0)
	}
	return launcher.LastLines(w, lines, size, func(w io.Writer, from int64) error { return app.CopyLog(ctx, w, s, open, attempt, from) })
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
