package slurm

import (
	"context"
	"reflect"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/tunnels"
)

// Watch follows the run's files, which costs the controller nothing, and queries the controller seldom: first, because the files of a job that was killed,
// queued again or suspended say that it lives, and for the place in the queue and the release of the nodes, which no file has.
func (l *Launcher) Watch(ctx context.Context, id launcher.ID) (<-chan launcher.Status, error) {
	c, err := l.open(ctx, id)
	if err != nil {
		return nil, err
	}
	out := make(chan launcher.Status)
	w := &watcher{cluster: c, out: out, launched: c.run.Record}
	go func() {
		defer close(out)
		w.run(ctx)
	}()
	return out, nil
}

// watcher sends the states of one cluster.
type watcher struct {
	cluster  *cluster
	out      chan<- launcher.Status
	launched *rundir.Record  // also after it was removed
	last     launcher.Status // without what is said while the site cannot be reached
	sent     launcher.Status
	pace     time.Duration  // until the next look, if nothing changes
	unknown  time.Time      // since when the controller does not know the job; zero: it does
	job      controller.Job // as last seen
	again    string         // directory of the attempt after which the job was seen waiting: the next one is to come
	planned  time.Time      // last known start that Slurm plans for the job

	stream   *tunnels.Stream // nil: there is no connection to the keeper
	streamed time.Time       // when it was last tried
	silent   time.Time       // when the stream ended; zero: there was none, or it is still connected
}

func (w *watcher) run(ctx context.Context) {
	changes, cancel := w.changes(ctx)
	defer func() {
		cancel()
		w.stream.Stop()
	}()
	paths := w.cluster.run.Watched()
	for ctx.Err() == nil {
		if err := w.cluster.run.Read(ctx); err != nil {
			w.unreachable(ctx, err)
		} else if w.step(ctx) {
			return
		}
		if now := w.cluster.run.Watched(); changes == nil || w.stream.Speaks() || !reflect.DeepEqual(now, paths) {
			cancel()
			changes, cancel = w.changes(ctx)
			paths = now
		}
		timer := time.NewTimer(w.pace)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case _, open := <-w.stream.News():
			if !open { // it ended: files and controller have the reason
				w.stream, w.silent = nil, time.Now()
			}
		case _, open := <-changes:
			if !open { // cut: another connection
				sleep.For(ctx, reconnect)
				changes = nil
			}
		}
		timer.Stop()
	}
}

// reconnect is the pause before a cut way is tried again.
const reconnect = time.Second

// changes is notified of changes of the files; nil while the site cannot be reached or the stream is connected: then only the pace counts.
func (w *watcher) changes(ctx context.Context) (<-chan struct{}, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if w.stream.Speaks() { // spares the file system
		return nil, cancel
	}
	changes, err := w.cluster.l.site.Runs.Files.Watch(ctx, w.cluster.run.Watched())
	if err != nil {
		changes = nil
		w.pace = reconnect
	}
	return changes, cancel
}

// step sends the status that follows from the files and the controller now; true if it was the last.
func (w *watcher) step(ctx context.Context) (last bool) {
	switch {
	case w.cluster.run.Record == nil:
		w.send(ctx, vanished(w.cluster.run.Name, w.launched))
		return true
	case !w.cluster.run.Committed:
		return w.uncommitted(ctx)
	case w.again == w.cluster.run.AttemptDir():
		return w.queued(ctx)
	case w.cluster.run.Result != nil:
		return w.ending(ctx)
	case w.cluster.run.State != nil:
		return w.running(ctx)
	default:
		return w.queued(ctx)
	}
}

// requeued notes that the job waits for its next attempt.
func (w *watcher) requeued(j controller.Job) {
	w.job, w.again, w.pace = j, w.cluster.run.AttemptDir(), 0
}

func (w *watcher) uncommitted(ctx context.Context) bool {
	w.pace = time.Second
	if w.cluster.run.Abandoned() {
		if w.last.Name == "" { // as List shows it
			w.send(ctx, w.cluster.waiting(controller.Job{}, fateUnknown))
		}
		w.sendLast(ctx, vanished(w.cluster.run.Name, w.launched), true)
		return true
	}
	w.send(ctx, w.cluster.waiting(controller.Job{}, fateUnknown))
	return false
}

// streamEvery is how often the connection to a keeper that could not be reached is tried again: a way may have been opened meanwhile.
const streamEvery = 10 * time.Second

// running is a cluster whose keeper has written a state. Without a stream the controller is queried now and then whether the job is still there.
func (w *watcher) running(ctx context.Context) bool {
	w.pace = controller.RunningAge
	if w.stream == nil && time.Since(w.streamed) > streamEvery {
		w.stream, w.streamed = w.cluster.l.tunnels.Listen(ctx, w.cluster.run), time.Now()
	}
	if st := w.stream.Heard(); st != nil && st.Revision > w.cluster.run.State.Revision { // files are written a moment later
		w.cluster.run.State = st
	}
	if w.last.Name == "" {
		return w.first(ctx)
	}
	w.send(ctx, w.cluster.living(w.job))
	stands := w.job.State == controller.StateRunning && !w.job.Has("COMPLETING")
	if w.stream.Speaks() && stands {
		return false
	}
	age := controller.RunningAge
	if time.Since(w.silent) < believeAfter || w.job.ID != 0 && !stands { // it was killed, or we are cut off; or Slurm ends it, or has suspended it
		age = askAgain
		w.pace = askAgain
	}
	f, over, _ := w.question(ctx, age)
	if f == fateGone && !over {
		w.pace = lookEvery
	}
	return over
}

// first is the first status of a cluster whose keeper has written a state: it is sent when Slurm has been asked, as a list asks.
func (w *watcher) first(ctx context.Context) bool {
	f, over, err := w.question(ctx, listAge)
	switch {
	case err != nil || over || w.pace == 0: // sent, or the next look finds another attempt or a result
		return over
	case f == fateUnknown:
		w.pace = askAgain
	}
	w.send(ctx, w.cluster.living(w.job))
	return false
}

// question reads the job's state from the controller. over: the cluster has ended without a result, and the last status was sent.
func (w *watcher) question(ctx context.Context, age time.Duration) (f fate, over bool, err error) {
	if !w.unknown.IsZero() {
		age = askAgain
	}
	f, j, err := w.cluster.askController(ctx, age)
	if err != nil {
		err = w.cluster.l.site.Unreachable(err)
		w.unreachable(ctx, err)
		return fateUnknown, false, err
	}
	if f != fateUnknown {
		w.job, w.unknown = j, time.Time{}
	}
	switch {
	case f == fateAlive && j.State == controller.StatePending && w.cluster.run.State != nil && w.again != w.cluster.run.AttemptDir():
		w.requeued(j)
		return f, false, nil
	case f == fateAlive:
		return f, false, nil
	case f == fateUnknown && w.unknown.IsZero():
		w.unknown = time.Now()
	}
	if f == fateUnknown && time.Since(w.unknown) < believeAfter {
		w.pace = min(w.pace, askAgain)
		return f, false, nil
	}
	// The files may be newer than the controller's answer.
	if err := w.cluster.run.Read(ctx); err != nil || w.cluster.run.Record == nil || w.cluster.run.Result != nil {
		w.pace, w.again = 0, ""
		return f, false, nil
	}
	v := w.cluster.verdict(ctx, f, j)
	if w.last.Name != "" { // whoever comes only now gets the end at once
		s := w.cluster.waiting(j, f)
		if w.cluster.run.State != nil {
			s = w.cluster.living(j)
		}
		s.Phase, s.Reason = runstate.Lost, runstate.Reason{Code: v.Cause, Message: v.Message}
		w.send(ctx, s)
	}
	w.sendLast(ctx, w.cluster.status(w.cluster.concluded(&v), j), true)
	return f, true, nil
}

// ending is a cluster whose keeper has written its result: its job is about to release the nodes, or to come back.
func (w *watcher) ending(ctx context.Context) bool {
	// Normally it is a matter of tenths of a second; nodes that do not come free are asked for less and less often.
	w.pace = min(max(lookEvery/2, w.cluster.run.ResultAge/4), controller.WaitingAge)
	f, j, err := w.cluster.askController(ctx, w.pace)
	switch {
	case err != nil && w.cluster.run.Settled(ctx): // what is concluded needs no answer
		s := w.cluster.status(w.cluster.run.Result, controller.Job{})
		s.Unreachable = w.cluster.l.site.Unreachable(err).Error()
		w.sendLast(ctx, s, false)
		return true
	case err != nil:
		w.unreachable(ctx, w.cluster.l.site.Unreachable(err))
		return false
	case f == fateAlive && j.State == controller.StatePending:
		w.requeued(j)
		return false
	case f == fateAlive:
		w.send(ctx, w.cluster.releasing(w.cluster.run.Result, j))
		return false
	}
	v := w.cluster.verdictOnResult(ctx, j)
	left, err := w.cluster.run.SecretsLeft(ctx)
	if err != nil {
		w.unreachable(ctx, err)
		return false
	}
	w.sendLast(ctx, w.cluster.status(w.cluster.concluded(v), j), v != nil || left)
	return true
}

// sendLast sends the last status. due: its record is to be written or cleaned up.
func (w *watcher) sendLast(ctx context.Context, s launcher.Status, due bool) {
	if due && s.Exit != nil {
		s.Due = &launcher.End{Cause: s.Exit.Cause, Message: s.Exit.Message}
	}
	w.cluster.l.tunnels.Drop(w.cluster.run.Name)
	w.send(ctx, s)
}

// unreachable reports that the site cannot be reached; the watcher goes on trying.
func (w *watcher) unreachable(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	w.pace = reconnect
	s := w.last
	if s.Name == "" {
		s = w.cluster.known(ctx)
	}
	s.Unreachable = err.Error()
	w.emit(ctx, s)
}

// send sends a status, which is the last one known from then on.
func (w *watcher) send(ctx context.Context, s launcher.Status) {
	w.last = s
	w.emit(ctx, s)
}

// emit sends a status unless it equals what was sent last.
func (w *watcher) emit(ctx context.Context, s launcher.Status) {
	if reflect.DeepEqual(s, w.sent) {
		return
	}
	w.sent = s
	select {
	case w.out <- s:
	case <-ctx.Done():
	}
}
