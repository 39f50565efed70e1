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
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// output shows the driver's log, byte for byte and each byte once: live from the dashboard while the head lives, the rest
// from the saved copy once the cluster is gone. Each attempt has a log of its own.
type output struct {
	l   Launcher
	id  ID
	log *slog.Logger
	w   io.Writer

	job       *runstate.Job       // the last job seen
	shown     map[int]*attemptLog // by attempt
	current   string              // submission id that is followed
	following *attemptLog
	cancel    context.CancelFunc
	done      chan struct{}
}

// attemptLog is the part of one attempt's log that was shown.
type attemptLog struct {
	submission string
	offset     int64 // raw bytes of the log consumed
	strip      *logstream.DriverOutput
	whole      bool        // shown to its end
	ended      atomic.Bool // the driver has ended: a head that does not answer is not waited for
	unreached  atomic.Bool // the last connection could not be made
}

// errEnded: the rest of the log is in its saved copy.
var errEnded = errors.New("the driver has ended, and its head does not answer any more")

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

func newOutput(l Launcher, id ID, w io.Writer, log *slog.Logger) *output {
	// A failing writer must not be treated as a lost connection, after which the same bytes would be written again.
	return &output{l: l, id: id, w: NewStdout(w, func(err error) { log.Warn("the output is not shown any more", "cluster", id, "error", err) }), log: log, shown: map[int]*attemptLog{}}
}

// attempt returns the log of attempt n of the job's run: all attempts have the same entrypoint, and ids <name>-<n>.
func (o *output) attempt(j *runstate.Job, n int) *attemptLog {
	if o.shown[n] == nil {
		id := j.SubmissionID[:strings.LastIndex(j.SubmissionID, "-")+1] + strconv.Itoa(n)
		o.shown[n] = &attemptLog{submission: id, strip: logstream.NewDriverOutput(o.w, id, j.Entrypoint)}
	}
	return o.shown[n]
}

// see examines a Status and follows the log of the attempt that runs.
func (o *output) see(ctx context.Context, s Status) {
	if s.Job == nil || s.Job.SubmissionID == "" || s.Job.State == runstate.JobWaiting || s.Phase == runstate.Gone {
		return
	}
	if o.current == s.Job.SubmissionID {
		if s.Job.State.Terminal() {
			o.following.ended.Store(true)
		}
		return
	}
	o.stop()
	job := *s.Job
	n := submissionAttempt(job.SubmissionID)
	o.job, o.current, o.following = &job, job.SubmissionID, o.attempt(&job, n)
	o.following.ended.Store(job.State.Terminal())
	ctx, o.cancel = context.WithCancel(ctx)
	o.done = make(chan struct{})
	following := o.following
	go func() {
		defer close(o.done)
		// If the driver ends earlier, nothing of it is shown live: complete shows all in order.
		if o.retry(ctx, following, func() error { return o.earlier(ctx, &job, n) }) == nil {
			_ = o.retry(ctx, following, func() error { return o.followOnce(ctx, following) }) // complete shows the rest
		}
	}()
}

// earlier shows the missing output of the attempts before n, from the keeper's copies.
func (o *output) earlier(ctx context.Context, job *runstate.Job, n int) error {
	if n == 1 {
		return nil
	}
	return AskKeeper(ctx, o.l, o.id, func(c *keeper.Client) error {
		for k := 1; k < n; k++ {
			err := o.rest(o.attempt(job, k), func(offset int64) (io.ReadCloser, error) { return c.Log(ctx, k, offset) })
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

// retry tries until success, the driver's end, the head's end or ctx's end. It returns the last error.
func (o *output) retry(ctx context.Context, a *attemptLog, try func() error) error {
	for {
		err := try()
		if err == nil || ctx.Err() != nil || a.ended.Load() || errors.Is(err, dashboardclient.ErrNotFound) || errors.Is(err, ErrNotFound) {
			return err
		}
		o.log.Debug("following the driver's log was interrupted", "cluster", o.id, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond): // try dials again; Dial itself waits for the head
		}
	}
}

// giveUp is how long a dashboard may be silent before it is dialled again: the endpoint may be dead.
const giveUp = 5 * time.Second

func (o *output) followOnce(ctx context.Context, a *attemptLog) error {
	e, err := o.l.Dial(ctx, o.id, Dashboard)
	if err != nil {
		return err
	}
	defer e.Close()
	if e.DialContext != nil {
		e.DialContext = a.useful(e.DialContext)
	}
	c, err := DashboardClient(e, o.log)
	if err != nil {
		return err
	}
	defer c.Close()
	f := c.FollowJob(a.submission, dashboardclient.FollowOptions{Offset: a.offset, GiveUp: giveUp, Unhurried: true}) // complete stops it
	_, err = f.Run(ctx, a.strip)
	a.offset = f.Offset()
	return err
}

// DashboardClient makes a client of the dashboard behind an Endpoint.
func DashboardClient(e *Endpoint, log *slog.Logger) (*dashboardclient.Client, error) {
	return dashboardclient.New(dashboardclient.Config{
		URL: e.URL, Token: e.Token, TokenHeader: e.TokenHeader, DialContext: e.DialContext, Logger: log,
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
	for n := 1; n <= last; n++ {
		which := n
		if n == r.Attempt {
			which = 0
		}
		if err := o.rest(o.attempt(o.job, n), func(offset int64) (io.ReadCloser, error) { return r.OpenLog(ctx, which, offset) }); err != nil {
			return err
		}
	}
	return nil
}

// rest shows an attempt's output to its end, from a copy that no longer grows.
func (o *output) rest(a *attemptLog, open func(offset int64) (io.ReadCloser, error)) error {
	if a.whole {
		return nil
	}
	saved, err := open(a.offset)
	if err != nil {
		return err
	}
	defer saved.Close()
	n, err := io.Copy(a.strip, saved)
	a.offset += n
	if err != nil {
		return err
	}
	a.whole = true
	return a.strip.Flush()
}
