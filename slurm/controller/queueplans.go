package controller

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"time"
)

// plan is when a waiting job would start, as asked at a time. A zero Start: Slurm did not know, or could not be asked.
type plan struct {
	Asked time.Time `json:"asked"`
	Start time.Time `json:"start,omitzero"`
}

// plans are the latest of each waiting job. Asking for one is work for Slurm's scheduler: all who watch a job share the answer, as they share Jobs.
type plans map[int]plan

// Planned returns when a waiting job would start, at most age old; zero if that is not known. ask is called by one of all who watch the job.
func (q *Queue) Planned(ctx context.Context, id int, age time.Duration, ask func(context.Context) (time.Time, error)) (time.Time, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p, known := q.plans[id]; known && time.Since(p.Asked) < age {
		return p.Start, nil
	}
	if q.file == "" {
		return q.plan(ctx, id, age, ask)
	}
	file := q.file + ".plans"
	release, err := q.turn(ctx, file)
	if err != nil {
		return time.Time{}, err
	}
	if release == nil {
		return q.plan(ctx, id, age, ask)
	}
	defer release()
	q.plans = readPlans(file)
	if p, known := q.plans[id]; known && time.Since(p.Asked) < age {
		return p.Start, nil
	}
	start, err := q.plan(ctx, id, age, ask)
	q.share(file, q.plans)
	return start, err
}

// plan asks, and forgets old plans.
func (q *Queue) plan(ctx context.Context, id int, age time.Duration, ask func(context.Context) (time.Time, error)) (time.Time, error) {
	asked := time.Now()
	start, err := ask(ctx)
	if ctx.Err() != nil {
		return time.Time{}, err // somebody else may ask
	}
	maps.DeleteFunc(q.plans, func(_ int, p plan) bool { return time.Since(p.Asked) >= age })
	if q.plans == nil {
		q.plans = plans{}
	}
	q.plans[id] = plan{Asked: asked, Start: start}
	return start, err
}

func readPlans(file string) plans {
	var p plans
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &p) != nil {
		return nil // asked anew
	}
	maps.DeleteFunc(p, func(_ int, p plan) bool { return p.Asked.After(time.Now()) })
	return p
}
