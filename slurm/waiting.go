package slurm

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
)

// queued handles a cluster whose keeper has not reported a state yet.
func (w *watcher) queued(ctx context.Context) bool {
	waited := time.Since(w.launched.Created)
	w.pace = goodFor(waited)
	f, over, _ := w.question(ctx, maxAge(waited))
	if over || f == fateGone {
		return over
	}
	if f == fateAlive && !w.cluster.answered.IsZero() { // who watches from another moment on shares the answer, and looks again when it is too old
		old := time.Until(w.cluster.answered.Add(goodFor(w.cluster.answered.Sub(w.launched.Created))))
		w.pace = min(w.pace, max(old, controller.WaitingAge/2)) // where the answer took long it is as old already
	}
	if f != fateAlive || w.job.State != controller.StatePending {
		w.send(ctx, w.cluster.waiting(w.job, f))
		return false
	}
	if w.job.Start.IsZero() {
		w.job.Start = w.planned
	}
	w.send(ctx, w.cluster.waiting(w.job, f)) // sent even if the launch ends now, so that the user sees the reason
	v, err := w.cluster.verdictOnWaiting(ctx, w.job)
	if err != nil {
		w.cluster.l.log.Debug("it is not known whether the job waits in vain", "cluster", w.cluster.run.Name, "error", err)
	}
	if v != nil {
		s := w.cluster.waiting(w.job, f)
		s.Due = dueOf(*v)
		w.send(ctx, s)
		w.pace = askAgain
		return false
	}
	if w.job.Start.IsZero() {
		w.job.Start = w.plannedStart(ctx)
		w.send(ctx, w.cluster.waiting(w.job, f))
	}
	if limit, bound := w.launched.Spec.Lifetime.Queue.Bound(); bound {
		w.pace = min(w.pace, max(time.Until(w.launched.Created.Add(limit)), 0)+lookEvery)
	}
	return false
}

// dueOf is the action that ends a waiting job with this verdict.
func dueOf(v runstate.Verdict) *launcher.End {
	return &launcher.End{Cause: v.Cause, Message: v.Message, Final: v.Final, IfWaiting: true}
}

// goodFor is how long watchers use one answer of Slurm about a waiting job: as long as the job had waited when the answer came, because the reason of a long wait changes
// seldom.
func goodFor(waited time.Duration) time.Duration {
	return min(max(waited, controller.WaitingAge), controller.RunningAge)
}

// maxAge is how old an answer may be for a job that has waited for this long: no older than the middle of that time, from when goodFor allows its use until now.
func maxAge(waited time.Duration) time.Duration { return goodFor(waited / 2) }

// Slurm's scheduler plans only the first jobs of its queue by itself. A client asks for a plan once the scheduler has had the time to make one (bf_interval's
// default), and seldom, because each request costs the controller time.
const (
	planAfter = 30 * time.Second
	planEvery = 10 * time.Minute
)

// plannedStart is when a job like ours would start; zero if that is not known.
func (w *watcher) plannedStart(ctx context.Context) time.Time {
	waits := w.job.Reason == "Priority" || w.job.Reason == "Resources" || w.job.Reason == "BeginTime"
	if waits && time.Since(w.job.Submit) > planAfter {
		start, err := w.cluster.l.site.Queue.Planned(ctx, w.job.ID, planEvery, func(ctx context.Context) (time.Time, error) {
			return w.cluster.l.site.PlannedStart(ctx, w.cluster.batch(script.PlanOf(w.cluster.run, 0)))
		})
		if err != nil {
			w.cluster.l.log.Debug("Slurm does not say when the job would start", "cluster", w.cluster.run.Name, "error", err)
		}
		w.planned = start
	}
	return w.planned
}
