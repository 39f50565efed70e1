package jobs

import (
	"context"
	"io"
	"time"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/dashboardclient/logstream"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// sharedLogs shows what is copied so far of a run of another user, which lives; with -f also what comes later.
func sharedLogs(ctx context.Context, a *app.App, o *logsOptions, c *app.Cluster, s launcher.Status) error {
	if o.node != "" {
		return app.UsageError("leave it out", "--node needs the cluster of %s, which only its owner can connect to", c.ID)
	}
	if !o.follow {
		return tailLog(ctx, a.UI.Output(), &s, c.SharedLog(), o.attempt, o.tail)
	}
	f := &sharedFollower{out: &switched{to: a.UI.Output()}, open: c.SharedLog(), attempt: s.Attempt, only: o.attempt > 0}
	if f.only {
		f.attempt = o.attempt
	}
	before := &tail{lines: o.tail}
	if o.tail > 0 {
		f.out.to = before
	}
	f.begin(&s)
	for ended := false; ; {
		block, err := f.read(ctx)
		if err != nil {
			return err
		}
		next, err := c.Status(ctx) // after the output: of an attempt that has ended all of it was there to read
		switch {
		case app.Interrupted(ctx):
			a.UI.Note("stopped watching the shared run %s", c.ID)
			return app.Exit(runstate.CodeInterrupted)
		case err != nil:
			return err
		}
		s = next
		if err := f.write(&s, block); err != nil {
			return err
		}
		if len(block) > 0 {
			continue
		}
		if f.out.to == io.Writer(before) { // all that there was
			f.out.to = a.UI.Output()
			if _, err := f.out.Write(before.last()); err != nil {
				return err
			}
		}
		over := s.Phase.Ended() || s.Attempt > f.attempt
		switch {
		case over && !ended: // what came between the output and the status
			ended = true
		case over && s.Attempt > f.attempt && !f.only:
			if err := f.flush(); err != nil {
				return err
			}
			f.attempt, ended = f.attempt+1, false
			f.begin(&s)
		case over:
			return f.end(a, &s)
		default:
			sleep.For(ctx, sharedEvery)
		}
	}
}

// sharedEvery is the pace of the copies (SHARE_EVERY of keeper/rayctl_keeper/run/shared.py).
const sharedEvery = 2 * time.Second

// sharedBlock is how much is read at once.
const sharedBlock = 1 << 20

// sharedFollower shows one attempt's copied log after the other.
type sharedFollower struct {
	out             *switched
	open            launcher.LogOpener
	attempt         int
	only            bool  // the attempt was chosen
	at              int64 // bytes of its log that were read
	prepare, driver *logstream.DriverOutput
}

// begin is for the first byte of an attempt's log.
func (f *sharedFollower) begin(s *launcher.Status) {
	f.at, f.prepare, f.driver = 0, nil, nil
	if s.Job == nil {
		return
	}
	id := s.Job.SubmissionID
	for _, old := range s.Attempts {
		if old.Attempt == f.attempt && old.SubmissionID != "" {
			id = old.SubmissionID
		}
	}
	f.prepare, f.driver = driverio.PrepareOutput(f.out, s.Job, id), logstream.NewDriverOutput(f.out, id, s.Job.Entrypoint)
}

// read is what is new.
func (f *sharedFollower) read(ctx context.Context) ([]byte, error) {
	log, err := f.open(ctx, f.attempt, f.at)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	return io.ReadAll(io.LimitReader(log, sharedBlock))
}

// write shows it, without Ray's own lines.
func (f *sharedFollower) write(s *launcher.Status, block []byte) error {
	if f.driver == nil {
		f.begin(s)
	}
	from := f.at
	f.at += int64(len(block))
	if f.driver == nil {
		_, err := f.out.Write(block)
		return err
	}
	_, err := driverio.ContinueAttempt(f.prepare, f.driver, f.driverBegins(s), from).Write(block)
	return err
}

// driverBegins is where in the attempt's log the driver's begins.
func (f *sharedFollower) driverBegins(s *launcher.Status) int64 {
	for _, old := range s.Attempts {
		if old.Attempt == f.attempt {
			return old.LogBegin
		}
	}
	return s.Job.LogBegin
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
func (f *sharedFollower) end(a *app.App, s *launcher.Status) error {
	if err := f.flush(); err != nil {
		return err
	}
	if s.Exit != nil && f.attempt == s.Attempt {
		a.UI.Note("%s", s.Exit.Sentence())
	}
	return attemptCode(s, f.attempt)
}

// switched passes on to a writer that may change.
type switched struct{ to io.Writer }

// Write implements io.Writer.
func (s *switched) Write(p []byte) (int, error) { return s.to.Write(p) }
