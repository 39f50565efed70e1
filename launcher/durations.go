package launcher

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// Durations are seconds spent in each part of the life, summed over attempts. Each moment belongs to one part: the parts add up to the total.
type Durations struct {
	// Installing is before everything else, where the launcher makes the Python environment.
	Installing   float64 `json:"installing"`
	Queued       float64 `json:"queued"`
	Provisioning float64 `json:"provisioning"`
	Starting     float64 `json:"starting"`
	// Preparing is from the moment that the cluster is ready until the driver runs: submission, packages, runtime environment (pip), job.prepare.
	Preparing float64 `json:"preparing"`
	Driver    float64 `json:"driver"`
	// Ready is the life of a cluster without a job of its own.
	Ready float64 `json:"ready"`
	// Lost is between the loss of an attempt and the next one.
	Lost     float64 `json:"lost"`
	Draining float64 `json:"draining"` // from the driver's end to that of the cluster
	Total    float64 `json:"total"`
}

// durations walks the timeline: the time before each event belongs to the part of the life that the events before it had begun. It also returns when a driver
// ran.
func durations(timeline []runstate.Event, hasJob bool, created, ended time.Time) (d Durations, drivers []span) {
	phase, job, prepare, since, installing := runstate.Queued, runstate.JobWaiting, runstate.JobWaiting, created, false
	until := func(at time.Time) {
		if s := seconds(since, at); s > 0 { // clocks differ: an event may be before the launch
			part := d.part(phase, job, prepare, hasJob)
			if installing {
				part = &d.Installing
			}
			*part += s
			if part == &d.Driver {
				drivers = append(drivers, span{since, at})
			}
			since = at
		}
	}
	for _, e := range inOrder(timeline) {
		switch e.Kind {
		case runstate.EventEnvironment:
			until(e.At)
			installing = e.To == runstate.EnvironmentMaking
		case runstate.EventPhase:
			until(e.At)
			if phase = runstate.Phase(e.To); phase == runstate.Lost || phase == runstate.Gone {
				job, prepare = runstate.JobWaiting, runstate.JobWaiting // its driver went with it
			}
		case runstate.EventJob:
			until(e.At)
			job = runstate.JobState(e.To)
		case runstate.EventPrepare:
			until(e.At)
			prepare = runstate.JobState(e.To)
		}
	}
	until(ended)
	d.Total = max(seconds(created, ended), 0)
	return d, drivers
}

// part is the part of the life that a moment belongs to. While the driver or job.prepare gets its grace the cluster is Draining already, and
// it still runs.
func (d *Durations) part(phase runstate.Phase, job, prepare runstate.JobState, hasJob bool) *float64 {
	switch {
	case job == runstate.JobRunning:
		return &d.Driver
	case prepare == runstate.JobRunning:
		return &d.Preparing
	case phase == runstate.Queued:
		return &d.Queued
	case phase == runstate.Provisioning:
		return &d.Provisioning
	case phase == runstate.Starting:
		return &d.Starting
	case phase == runstate.Lost:
		return &d.Lost
	case phase == runstate.Ready && !hasJob:
		return &d.Ready
	case phase == runstate.Ready && !job.Terminal():
		return &d.Preparing
	default:
		return &d.Draining
	}
}

// Text is the whole time and, in brackets, the parts that took time.
func (d *Durations) Text() string {
	var parts []string
	for _, p := range []struct {
		name string
		s    float64
	}{
		{"installing", d.Installing}, {"queued", d.Queued}, {"provisioning", d.Provisioning}, {"starting", d.Starting}, {"preparing", d.Preparing}, {"ready", d.Ready},
		{"driver", d.Driver}, {"lost", d.Lost}, {"ending", d.Draining},
	} {
		if p.s >= 0.05 {
			parts = append(parts, fmt.Sprintf("%s %s", p.name, Human(p.s)))
		}
	}
	return fmt.Sprintf("%s (%s)", Human(d.Total), strings.Join(parts, ", "))
}

// inOrder returns the events sorted by time. They are not recorded in that order: the start of a job, by Ray's clock, is recorded together with its
// end, and events before the keeper's start come from Slurm or Kubernetes.
func inOrder(events []runstate.Event) []runstate.Event {
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b runstate.Event) int { return a.At.Compare(b.At) })
	return sorted
}

func seconds(from, to time.Time) float64 {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return to.Sub(from).Seconds()
}
