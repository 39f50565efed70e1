package launcher

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Action is a request of the user (or a signal) about a run that is being watched.
type Action int

// The actions.
const (
	Stop       Action = iota + 1 // hand the end to the keeper, wait for it; the driver gets its grace
	StopNow                      // the same without grace
	Detach                       // stop watching; the run goes on
	Terminated                   // Stop because of SIGTERM, which no user types
)

// message is the reason of the end that an action asks for.
func (a Action) message() string {
	if a == Terminated {
		return "interrupted by SIGTERM, as a timeout or a CI system sends it"
	}
	return "interrupted by the user"
}

// RunOptions shape Run and Attach.
type RunOptions struct {
	// Stdout gets the driver's output, byte for byte, and nothing else. After an error it gets nothing more (see Stdout), and the run goes on.
	// nil: the output is not followed.
	Stdout io.Writer
	// Tail leaves out all but so many last lines of what has been printed before; 0: nothing is left out.
	Tail int
	// Attempt is the only one whose output is wanted, and ends the watching (Outcome.Over); 0: all.
	Attempt int
	// Source has the output of the run while it lives; nil: its keeper.
	Source LogSource
	// OnStatus is called with each Status of the cluster, from one goroutine; nil: none.
	OnStatus func(Status)
	// Actions delivers the user's requests; nil: none.
	Actions <-chan Action
	// OnRefused is called when the launch failed before anything was begun and is recorded nowhere else; nil: none.
	OnRefused func(error)
	// Detach makes Run return as soon as the launch is committed.
	Detach bool
	// Logger gets notes for -v; nil: none.
	Logger *slog.Logger
}

// Outcome is what Run saw.
type Outcome struct {
	ID       ID
	Detached bool     // watching stopped, the run goes on; Receipt is nil
	Over     *Status  // RunOptions.Attempt has ended, the run goes on; Receipt is nil
	Receipt  *Receipt // the account of a run that has ended
	Result   *Result
}

// Run takes one job through its whole life: launch, commit, watch, follow, result, gone, receipt. The error is nil when
// the run ended, whatever its exit code (Outcome.Receipt.Exit has it), and an *ExitError when it never began or can
// no longer be seen. An Action of Stop before the commit leaves nothing behind.
func Run(ctx context.Context, l Launcher, s *spec.ClusterSpec, p Payload, o RunOptions) (*Outcome, error) {
	id, early, err := launch(ctx, l, s, p, o)
	switch {
	case err != nil:
		if o.OnRefused != nil {
			o.OnRefused(err)
		}
		return nil, err
	case o.Detach && early == 0:
		return &Outcome{ID: id, Detached: true}, nil
	}
	v := newView(l, id, o, p.EndOnDisconnect)
	v.reconciles = true
	if early == Detach {
		v.letGo(ctx)
		return &Outcome{ID: id, Detached: true}, nil
	}
	// If the commit came before the user's request to stop, the run exists and is ended like any other.
	return v.attach(ctx, early)
}

// launch calls Launch and accepts Actions meanwhile. A request to detach is kept until the commit.
func launch(ctx context.Context, l Launcher, s *spec.ClusterSpec, p Payload, o RunOptions) (ID, Action, error) {
	type answer struct {
		id  ID
		err error
	}
	launchCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan answer, 1)
	go func() {
		id, err := l.Launch(launchCtx, s, p)
		done <- answer{id, err}
	}()
	var early Action
	for {
		select {
		case a := <-done:
			if a.err != nil && early != 0 && early != Detach {
				return "", early, InterruptedLaunch(ID(s.Name), context.Canceled, a.err)
			}
			return a.id, early, a.err
		case early = <-o.Actions:
			if early != Detach {
				cancel()
			}
		}
	}
}

// Attach watches a cluster that exists until it has ended, follows its job's output, and returns the receipt. It is the second
// half of Run, and all of `rayctl logs -f` on a run. Unlike Run it changes nothing unless Actions ask for it.
func Attach(ctx context.Context, l Launcher, id ID, o RunOptions) (*Outcome, error) {
	return newView(l, id, o, 0).attach(ctx, 0)
}

// AttachAndReconcile is Attach for the client that launched the cluster: it also does for the cluster what Run does.
func AttachAndReconcile(ctx context.Context, l Launcher, id ID, o RunOptions) (*Outcome, error) {
	v := newView(l, id, o, 0)
	v.reconciles = true
	return v.attach(ctx, 0)
}

// view is one client watching one cluster.
type view struct {
	l          Launcher
	id         ID
	o          RunOptions
	disconnect time.Duration // end-on-disconnect, 0: off
	log        *slog.Logger
	output     *output // nil: output not wanted
	ending     chan error
	last       Status // from Watch
	reconciles bool   // WatchAndReconcile instead of Watch
	offers     *Offers
}

func newView(l Launcher, id ID, o RunOptions, disconnect time.Duration) *view {
	v := &view{l: l, id: id, o: o, disconnect: disconnect, log: o.Logger, ending: make(chan error, 2)} // two: one graceful Terminate, one at once
	if v.log == nil {
		v.log = slog.New(slog.DiscardHandler)
	}
	v.offers = NewOffers(l, id, v.log)
	return v
}

func (v *view) attach(ctx context.Context, early Action) (*Outcome, error) {
	defer v.offers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := v.l.Watch
	if v.reconciles {
		watch = func(ctx context.Context, id ID) (<-chan Status, error) { return WatchAndReconcile(ctx, v.l, id, v.log) }
	}
	statuses, err := watch(ctx, v.id)
	if err != nil {
		return nil, err
	}
	if v.o.Stdout != nil {
		v.output = newOutput(v.l, v.id, v.o, v.log)
		defer v.output.stop()
	}
	stopRenewals := v.startRenewals(ctx)
	defer stopRenewals()
	if early != 0 {
		v.end(ctx, early)
	}
	outcome, err := v.untilGone(ctx, statuses)
	if outcome != nil && outcome.Detached {
		stopRenewals()
		v.letGo(ctx)
	}
	return outcome, err
}

// startRenewals renews an end-on-disconnect run until the returned function has returned.
func (v *view) startRenewals(ctx context.Context) (stop func()) {
	if v.disconnect == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		v.renew(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (v *view) untilGone(ctx context.Context, statuses <-chan Status) (*Outcome, error) {
	var failed <-chan error
	if v.output != nil {
		failed = v.output.failed
	}
	for {
		select {
		case s, open := <-statuses:
			if !open {
				if err := ctx.Err(); err != nil {
					return nil, Fail(runstate.CodeInterrupted, err, "`rayctl logs -f "+string(v.id)+"` follows it again", "stopped watching %s", v.id)
				}
				return v.finish(ctx)
			}
			v.last = s
			if v.reconciles {
				v.offers.See(ctx, s)
			}
			if v.o.OnStatus != nil {
				v.o.OnStatus(s)
			}
			if v.output != nil {
				v.output.see(ctx, s)
			}
			if v.o.Attempt > 0 && s.Attempt > v.o.Attempt && !s.Phase.Ended() {
				return v.attemptOver(ctx, s)
			}
		case a := <-v.o.Actions:
			if a == Detach {
				return &Outcome{ID: v.id, Detached: true}, nil
			}
			v.end(ctx, a)
		case err := <-failed:
			return nil, err
		case err := <-v.ending:
			if err != nil {
				return nil, err
			}
		}
	}
}

// attemptOver ends the watching of one attempt.
func (v *view) attemptOver(ctx context.Context, s Status) (*Outcome, error) {
	if v.output != nil {
		if err := v.output.finishAttempt(ctx, s.Attempts); err != nil {
			return nil, v.notShown(err)
		}
	}
	return &Outcome{ID: v.id, Over: &s}, nil
}

// notShown is the error of output that is there and cannot be shown.
func (v *view) notShown(err error) error {
	return Fail(runstate.CodeInternal, err, "`rayctl logs "+string(v.id)+"` shows all of it", "the rest of the driver's output cannot be shown: %v", err)
}

// end asks for the end of the run; Watch reports when it is reached.
func (v *view) end(ctx context.Context, a Action) {
	e := End{Cause: runstate.CauseInterrupted, Message: a.message(), Now: a == StopNow}
	go func() {
		if err := v.l.Terminate(ctx, v.id, e); err != nil && ctx.Err() == nil {
			v.ending <- err
		}
	}()
}

// finish reads the result, completes the output from the saved log, and writes the receipt.
func (v *view) finish(ctx context.Context) (*Outcome, error) {
	r, err := v.l.Result(ctx, v.id)
	if errors.Is(err, ErrNotFound) && v.last.Exit != nil {
		r, err = Recordless(v.last), nil
	}
	if err != nil {
		return nil, err
	}
	if v.output != nil {
		if err := v.output.complete(ctx, r); err != nil {
			return nil, v.notShown(err)
		}
	}
	return &Outcome{ID: v.id, Receipt: NewReceipt(r), Result: r}, nil
}
