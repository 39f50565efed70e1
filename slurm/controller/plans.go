package controller

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"time"

	"github.com/rayctl/rayctl/launcher/filelock"
	"github.com/rayctl/rayctl/launcher/wholefile"
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
	file := ""
	if q.file != "" {
		file = q.file + ".plans"
		lock, err := filelock.Acquire(ctx, file+".lock") // waits for the process that asks
		switch {
		case err == nil:
			defer lock.Release()
			q.plans = readPlans(file)
		case ctx.Err() != nil:
			return time.Time{}, err
		default:
			q.log.Debug("plans of Slurm cannot be shared", "file", file, "error", err)
			file = ""
		}
	}
	if p, known := q.plans[id]; known && time.Since(p.Asked) < age {
		return p.Start, nil
	}
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
	if file != "" {
		q.sharePlans(file)
	}
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

func (q *Queue) sharePlans(file string) {
	text, err := json.Marshal(q.plans)
	if err == nil {
		err = wholefile.Write(file, text, 0o600)
	}
	if err != nil {
		q.log.Debug("plans of Slurm cannot be shared", "file", file, "error", err)
	}
}
