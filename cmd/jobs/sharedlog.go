package jobs

import (
	"context"
	"io"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient/logstream"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sharedrun"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// sharedLogs shows what is copied so far of a run of another user, which lives; with -f also what comes later.
func sharedLogs(ctx context.Context, a *app.App, o *logsOptions, c *app.Cluster, s launcher.Status) error {
	if o.node != "" {
		return app.UsageError("leave it out", "--node needs the cluster of %s, which only its owner can connect to", c.ID)
	}
	if !o.follow {
		return tailLog(ctx, o.to(a), &s, c.SharedLog(), o.attempt, o.tail)
	}
	f := &sharedFollower{ui: a.UI, c: c, out: &switched{to: o.to(a)}, attempt: s.Attempt, only: o.attempt > 0}
	if f.only {
		f.attempt = o.attempt
	}
	if o.tail > 0 {
		f.before, f.starts = &tail{lines: o.tail, most: mostKept}, logstream.NewLineStarts(o.tail)
		f.out.to = io.MultiWriter(f.before, f.starts)
	}
	err := f.follow(ctx)
	if app.Interrupted(ctx) {
		a.UI.Note("stopped watching the shared run %s", c.ID)
		return app.Exit(runstate.CodeInterrupted)
	}
	return err
}

// sharedBlock is how much is read at once.
const sharedBlock = 1 << 20

// sharedFollower shows one attempt's copied log after the other.
type sharedFollower struct {
	ui              *terminal.UI
	c               *app.Cluster
	out             *switched
	before          *tail                 // of what there was at the beginning, until that is shown; nil: all of it is shown
	starts          *logstream.LineStarts // of the same lines
	attempt         int
	only            bool  // the attempt was chosen
	at              int64 // bytes of its log that were read
	prepare, driver *logstream.DriverOutput
}

// follow shows what there is and what comes, until the run, or the chosen attempt, has ended.
func (f *sharedFollower) follow(ctx context.Context) error {
	for ended := false; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		block, err := f.read(ctx)
		if err != nil {
			return err
		}
		s, err := f.c.Status(ctx) // after the output: of an attempt that has ended all of it was there to read
		if err != nil {
			return err
		}
		if len(block) > 0 {
			if err := f.write(&s, block); err != nil {
				return err
			}
			continue
		}
		if err := f.showTail(); err != nil {
			return err
		}
		switch over := s.Phase.Ended() || s.Attempt > f.attempt; {
		case !over:
			sleep.For(ctx, sharedrun.Every)
		case !ended: // once more, for what came between the output and the status
			ended = true
		case f.only || s.Attempt == f.attempt:
			return f.end(&s)
		default:
			if err := f.flush(); err != nil {
				return err
			}
			f.attempt, f.at, f.prepare, f.driver, ended = max(f.attempt+1, s.Attempt-mostAttempts), 0, nil, nil, false
		}
	}
}

// read is what is new.
func (f *sharedFollower) read(ctx context.Context) ([]byte, error) {
	log, err := f.c.SharedLog()(ctx, f.attempt, f.at)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	return io.ReadAll(io.LimitReader(log, sharedBlock))
}

// write shows it, without Ray's own lines.
func (f *sharedFollower) write(s *launcher.Status, block []byte) error {
	from := f.at
	f.at += int64(len(block))
	if s.Job == nil {
		_, err := f.out.Write(block)
		return err
	}
	id, begin := app.DriverOf(s, f.attempt)
	if f.driver == nil {
		f.prepare, f.driver = driverio.PrepareOutput(f.out, s.Job, id), logstream.NewDriverOutput(f.out, id, s.Job.Entrypoint)
	}
	_, err := driverio.ContinueAttempt(f.prepare, f.driver, begin, from).Write(block)
	return err
}

// showTail ends the part of which only the last lines are shown. Lines that are too long to be kept are read a second time.
func (f *sharedFollower) showTail() error {
	if f.before == nil {
		return nil
	}
	before := f.before
	f.before, f.out.to = nil, f.ui.Output()
	if before.left {
		f.out.to = &skipping{w: f.ui.Output(), left: f.starts.First()}
		f.at, f.prepare, f.driver = 0, nil, nil
		return nil
	}
	_, err := f.out.Write(before.last())
	return err
}

// flush writes what was held back as the beginning of a line of Ray's.
func (f *sharedFollower) flush() error {
	if f.driver == nil {
		return nil
	}
	if err := f.prepare.Flush(); err != nil {
		return err
	}
	return f.driver.Flush()
}

// end tells how the run, or the chosen attempt, has ended.
func (f *sharedFollower) end(s *launcher.Status) error {
	if err := f.flush(); err != nil {
		return err
	}
	if s.Exit != nil && f.attempt == s.Attempt {
		f.ui.Note("%s", s.Exit.Sentence())
	}
	return attemptCode(s, f.attempt)
}

// switched passes on to a writer that may change.
type switched struct{ to io.Writer }

// Write implements io.Writer.
func (s *switched) Write(p []byte) (int, error) { return s.to.Write(p) }
