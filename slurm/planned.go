package slurm

import (
	"context"
	"time"
)

// planned is when a job like ours would start: Slurm's scheduler plans only the first jobs of its queue by itself.
type planned struct{ asked, start time.Time }

// planEvery is how often Slurm is asked for a plan: that is work for its scheduler.
const planEvery = 10 * time.Minute

func (w *watcher) plannedStart(ctx context.Context) time.Time {
	waits := w.job.Reason == "Priority" || w.job.Reason == "Resources" || w.job.Reason == "BeginTime"
	if waits && time.Since(w.planned.asked) > planEvery {
		start, err := w.l.site.plannedStart(ctx, w.batch())
		if err != nil {
			w.l.log.Debug("Slurm does not say when the job would start", "cluster", w.name, "error", err)
		}
		w.planned = planned{time.Now(), start}
	}
	return w.planned.start
}
