package launcher

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/dashboardclient/logstream"
	"github.com/rayctl/rayctl/dashboardclient/proven"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// LogSource has the output of a run that lives, attempt by attempt, from a byte on. A keeper.Client is one.
type LogSource interface {
	// LogSize is how many bytes there are of an attempt's.
	LogSize(ctx context.Context, attempt int) (int64, error)
	// Log opens what there is.
	Log(ctx context.Context, attempt int, offset int64) (io.ReadCloser, error)
	// FollowLog opens what there is and what comes, to the attempt's end; prepare: to the end of what job.prepare prints. grows is false if the reader ends where the
	// output ends now.
	FollowLog(ctx context.Context, attempt int, offset int64, prepare bool) (log io.ReadCloser, grows bool, err error)
}

// MostAttempts bounds how many attempts before the last are looked at: their number may be a lie of another user, who shares a run.
const MostAttempts = 1000

// output shows the driver's output, byte for byte and each byte once: from the keeper's copy while the keeper lives, the rest from the same copy, as it is saved,
// once the cluster has ended. Each attempt has a log of its own.
type output struct {
	l      Launcher
	id     ID
	log    *slog.Logger
	source LogSource // nil: the cluster's keeper
	out    io.Writer
	w      *switched // to out, or in front of it what leaves out all but the last lines

	only  int // the one attempt that is shown, 0: all
	first int // the first attempt that is shown, once that is known
	tail  int // only so many last lines are shown of what there is at the beginning, 0: all, or they are shown

	job       *runstate.Job       // the last job seen
	shown     map[int]*attemptLog // by attempt
	current   string              // submission id that is followed: job.prepare's until the driver's begin is known, or the driver's
	following *attemptLog
	cancel    context.CancelFunc
	done      chan struct{}
	failed    chan error // of a source that is not the keeper: why nothing more is shown
}

// attemptLog is the part of one attempt's log that was shown: of job.prepare's, then of the driver's.
type attemptLog struct {
	n               int
	prepare, driver *logstream.DriverOutput
	offset          int64 // raw bytes of the log consumed

	whole     bool        // shown to its end
	ended     atomic.Bool // the driver has ended: a keeper that does not answer is not waited for
	unreached atomic.Bool // the last connection could not be made
}

// errEnded: the rest of the log is in its saved copy.
var errEnded = errors.New("the driver has ended, and its keeper does not answer any more")

// useful is dial without pointless attempts: each may cost requests to the API server, or a step of the job.
func (a *attemptLog) useful(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if a.ended.Load() && a.unreached.Load() {
			return nil, errEnded
		}
		conn, err := dial(ctx, network, address)
		a.unreached.Store(err != nil)
		return conn, err
	}
}

func newOutput(l Launcher, id ID, ro RunOptions, log *slog.Logger) *output {
	// A failing writer must not be treated as a lost connection, after which the same bytes would be written again.
	out := driverio.NewStdout(ro.Stdout, func(err error) { log.Warn("the output is not shown any more", "cluster", id, "error", err) })
	return &output{l: l, id: id, log: log, source: ro.Source, failed: make(chan error, 1), out: out, w: &switched{to: out}, only: ro.Attempt, first: ro.Attempt, tail: ro.Tail, shown: map[int]*attemptLog{}}
}

// switched passes on to a writer that may change.
type switched struct {
	to     io.Writer
	inLine bool // the last Write ended within a line
}

// Write implements io.Writer.
func (s *switched) Write(p []byte) (int, error) {
	if len(p) > 0 {
		s.inLine = p[len(p)-1] != '\n'
	}
	return s.to.Write(p)
}

// ownLine begins an attempt's output of ranks with a line of its own: if the attempt before it was cut within a rank's record, its first record would be that rank's.
type ownLine struct {
	w     *switched
	begun bool
}

// Write implements io.Writer.
func (o *ownLine) Write(p []byte) (int, error) {
	if !o.begun && len(p) > 0 {
		o.begun = true
		if o.w.inLine {
			if _, err := o.w.Write([]byte("\n")); err != nil {
				return 0, err
			}
		}
	}
	return o.w.Write(p)
}

// attempt returns the log of attempt n of the job's run: all attempts have the same entrypoint, and ids <name>-<n>.
func (o *output) attempt(j *runstate.Job, n int) *attemptLog {
	if o.shown[n] == nil {
		o.shown[n] = &attemptLog{n: n}
		o.restart(o.shown[n], j, 0)
	}
	return o.shown[n]
}

// restart has the attempt's log shown from a byte on.
func (o *output) restart(a *attemptLog, j *runstate.Job, from int64) {
	id := j.SubmissionID[:strings.LastIndex(j.SubmissionID, "-")+1] + strconv.Itoa(a.n)
	var w io.Writer = o.w
	if driverio.HasRanks(j.Entrypoint) {
		w = &ownLine{w: o.w, begun: from > 0}
	}
	a.prepare, a.driver, a.offset = driverio.PrepareOutput(w, j, id), logstream.NewDriverOutput(w, id, j.Entrypoint), from
}

// see examines a Status and follows the log of the attempt that runs.
func (o *output) see(ctx context.Context, s Status) {
	if s.Job == nil || s.Job.SubmissionID == "" || s.Job.State == runstate.JobWaiting && !s.Job.Preparing() || s.Phase == runstate.Gone {
		return
	}
	current, ended := s.Job.SubmissionID, s.Job.State.Terminal()
	if s.Job.LogBegin == runstate.AllPrepare {
		current, ended = s.Job.Prepare.SubmissionID, s.Job.Prepare.State.Terminal() && s.Job.Prepare.State != runstate.JobSucceeded
	}
	if o.current == current {
		if ended {
			o.following.ended.Store(true)
		}
		return
	}
	o.stop()
	job, attempts := *s.Job, s.Attempts
	n := submissionAttempt(job.SubmissionID)
	if o.only > 0 && n != o.only {
		return
	}
	o.job, o.current, o.following = &job, current, o.attempt(&job, n)
	o.begin(n)
	o.following.ended.Store(ended)
	ctx, o.cancel = context.WithCancel(ctx)
	o.done = make(chan struct{})
	following := o.following
	go func() {
		defer close(o.done)
		for _, step := range []func() error{
			func() error { return o.earlier(ctx, &job, attempts, n) },
			func() error { return o.tailOnce(ctx, &job, following, job.LogBegin) },
			func() error { return o.followOnce(ctx, following, job.LogBegin) },
		} {
			if err := o.retry(ctx, following, step); err != nil { // complete shows the rest, and all of it in order
				if o.source != nil && ctx.Err() == nil {
					o.failed <- err
				}
				return
			}
		}
	}()
}

// logBegin is where in the saved log of an attempt that has ended its driver's begins.
func logBegin(attempts []runstate.Attempt, n int) int64 {
	for _, a := range attempts {
		if a.Attempt == n {
			return a.LogBegin
		}
	}
	return 0
}

// begin decides once which attempt is the first that is shown: n is the one that runs, or the run's last.
func (o *output) begin(n int) {
	switch {
	case o.first > 0:
	case o.tail > 0:
		o.first = n
	default:
		o.first = max(1, n-MostAttempts)
	}
}

// ask calls do with what has the output of an attempt.
func (o *output) ask(ctx context.Context, a *attemptLog, do func(LogSource) error) error {
	if o.source != nil {
		return do(o.source)
	}
	e, err := o.l.Dial(ctx, o.id, Keeper)
	if err != nil {
		return err
	}
	if e.DialContext != nil {
		e.DialContext = a.useful(e.DialContext)
	}
	return AskOver(e, func(c *keeper.Client) error { return do(c) })
}

// tailOnce shows the last lines of what there is of the attempt's output, if only they are wanted of it.
func (o *output) tailOnce(ctx context.Context, j *runstate.Job, a *attemptLog, begin int64) error {
	if o.tail == 0 {
		return nil
	}
	return o.ask(ctx, a, func(source LogSource) error {
		size, err := source.LogSize(ctx, a.n)
		if err != nil {
			return err
		}
		return o.showTail(j, a, begin, size, func(from int64) (io.ReadCloser, error) { return source.Log(ctx, a.n, from) })
	})
}

// showTail shows the last lines of an attempt's output, which has size bytes, 0: not known. Lines that are too long to be kept are shown with what comes after them.
func (o *output) showTail(j *runstate.Job, a *attemptLog, begin, size int64, open func(from int64) (io.ReadCloser, error)) error {
	end, err := findLastLines(o.tail, size, func(w io.Writer, from int64) error {
		o.w.to = w
		o.restart(a, j, from)
		log, err := open(from)
		if err != nil {
			return err
		}
		defer log.Close()
		return a.show(log, begin)
	})
	o.w.to = o.out
	if err != nil {
		return err
	}
	o.tail = 0
	if end.kept == nil {
		o.w.to = &skipping{w: o.out, left: end.skip}
		o.restart(a, j, end.from)
		return nil
	}
	_, err = o.out.Write(end.kept)
	return err
}

// earlier shows the missing output of the attempts before n.
func (o *output) earlier(ctx context.Context, job *runstate.Job, attempts []runstate.Attempt, n int) error {
	if n == o.first {
		return nil
	}
	return o.ask(ctx, o.following, func(source LogSource) error {
		for k := o.first; k < n; k++ {
			err := o.attempt(job, k).rest(logBegin(attempts, k), func(offset int64) (io.ReadCloser, error) { return source.Log(ctx, k, offset) })
			if err != nil && !errors.Is(err, keeper.ErrNotFound) { // the attempt ran no driver, or had another keeper
				return err
			}
		}
		return nil
	})
}

// submissionAttempt is n of the submission id <name>-<n>.
func submissionAttempt(id string) int {
	n, err := strconv.Atoi(id[strings.LastIndex(id, "-")+1:])
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// stop ends the live follower and waits until it has written its last byte.
func (o *output) stop() {
	if o.cancel == nil {
		return
	}
	o.cancel()
	<-o.done
	o.cancel = nil
}

// retry tries until success, the driver's end, the cluster's end or ctx's end, and only once where no connection is needed. It returns the last error.
func (o *output) retry(ctx context.Context, a *attemptLog, try func() error) error {
	for {
		err := try()
		if err == nil || ctx.Err() != nil || a.ended.Load() || o.source != nil || errors.Is(err, ErrNotFound) {
			return err
		}
		o.log.Debug("following the driver's log was interrupted", "cluster", o.id, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond): // try dials again; Dial itself waits for the keeper
		}
	}
}

// dialTimeout limits a connection, until the dashboard has accepted it: its event loop may be busy for seconds.
const dialTimeout = 15 * time.Second

// errMore: the keeper of an earlier rayctl has sent what there was, and is asked again.
var errMore = errors.New("there may be more")

// followOnce shows the attempt's output as it grows, to its end. begin: its LogBegin, while that is AllPrepare only what job.prepare prints.
func (o *output) followOnce(ctx context.Context, a *attemptLog, begin int64) error {
	return o.ask(ctx, a, func(source LogSource) error {
		log, grows, err := source.FollowLog(ctx, a.n, a.offset, begin == runstate.AllPrepare)
		if err != nil {
			return err
		}
		defer log.Close()
		if err := a.show(log, begin); err != nil || grows {
			return err
		}
		return errMore
	})
}

// DashboardClient makes a client of the dashboard behind an Endpoint.
func DashboardClient(e *Endpoint, log *slog.Logger) (*dashboardclient.Client, error) {
	dial := e.DialContext
	if dial == nil {
		dial = proven.Dial(dialTimeout)
	}
	return dashboardclient.New(dashboardclient.Config{
		URL: e.URL, Token: e.Token, TokenHeader: e.TokenHeader, DialContext: dial, Logger: log,
	})
}

// complete shows from the saved log what was not shown live: all attempts in their order.
func (o *output) complete(ctx context.Context, r *Result) error {
	o.stop() // the saved log has the rest
	last := 0
	for _, a := range r.Attempts {
		if a.SubmissionID != "" {
			o.job, last = cmp.Or(o.job, &runstate.Job{SubmissionID: a.SubmissionID}), a.Attempt
		}
	}
	if r.Job != nil && r.Job.SubmissionID != "" {
		o.job, last = r.Job, submissionAttempt(r.Job.SubmissionID)
	}
	for n := range o.shown {
		last = max(last, n)
	}
	o.begin(last)
	if o.only > 0 {
		last = o.only
	}
	for n := o.first; n <= last; n++ {
		which := n
		if n == r.Attempt {
			which = 0
		}
		begin := logBegin(r.Attempts, n)
		if r.Job != nil && n == submissionAttempt(r.Job.SubmissionID) {
			begin = r.Job.LogBegin
		}
		if err := o.completeAttempt(o.attempt(o.job, n), begin, func(offset int64) (io.ReadCloser, error) { return r.OpenLog(ctx, which, offset) }); err != nil {
			return err
		}
	}
	return nil
}

// completeAttempt shows the rest of one attempt's output, or its last lines where nothing was shown and only they are wanted.
func (o *output) completeAttempt(a *attemptLog, begin int64, open func(from int64) (io.ReadCloser, error)) error {
	if o.tail > 0 {
		if err := o.showTail(o.job, a, begin, 0, open); err != nil {
			return err
		}
	}
	return a.rest(begin, open)
}

// finishAttempt shows the rest of the only attempt that is wanted, which has ended; the run goes on.
func (o *output) finishAttempt(ctx context.Context, attempts []runstate.Attempt) error {
	o.stop()
	a := o.shown[o.only]
	if a == nil {
		return nil // it had no driver
	}
	return o.ask(ctx, a, func(source LogSource) error {
		err := o.completeAttempt(a, logBegin(attempts, a.n), func(from int64) (io.ReadCloser, error) { return source.Log(ctx, a.n, from) })
		if errors.Is(err, keeper.ErrNotFound) {
			return nil
		}
		return err
	})
}

// show shows what comes of a log from the attempt's offset on. begin: where in it the driver's output begins.
func (a *attemptLog) show(log io.Reader, begin int64) error {
	n, err := io.Copy(driverio.ContinueAttempt(a.prepare, a.driver, begin, a.offset), log)
	a.offset += n
	return err
}

// rest shows an attempt's output to its end, from a copy that no longer grows. begin: where in it the driver's log begins.
func (a *attemptLog) rest(begin int64, open func(offset int64) (io.ReadCloser, error)) error {
	if a.whole {
		return nil
	}
	saved, err := open(a.offset)
	if err != nil {
		return err
	}
	defer saved.Close()
	if err := a.show(saved, begin); err != nil {
		return err
	}
	a.whole = true
	return driverio.ContinueAttempt(a.prepare, a.driver, begin, a.offset).Flush()
}
