package slurm

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/site"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// status is the keeper's state with what the record and Slurm add. j is the job as far as it is known.
func (c *cluster) status(st *runstate.State, j controller.Job) launcher.Status {
	s := launcher.StatusOf(st)
	s.Uncommitted = !s.Phase.Ended() && !c.run.Committed
	s.Ours, s.Owner, s.Labels, s.Created = true, c.run.Record.Owner, c.run.Record.Labels, c.run.Record.Created
	if c.run.JobID != 0 {
		s.Where = fmt.Sprintf("job %d", c.run.JobID)
		if c.inside() {
			s.Where = fmt.Sprintf("in job %d", c.run.JobID)
		}
	}
	s.Timeline = append(c.before(s.Attempt, j, s.Timeline), s.Timeline...)
	return s
}

// before is what happened before the keeper, by Slurm's clock.
func (c *cluster) before(attempt int, j controller.Job, after []runstate.Event) []runstate.Event {
	events := []runstate.Event{{At: c.run.Record.Created, Attempt: 1, Kind: "phase", To: string(runstate.Queued)}}
	if slices.ContainsFunc(after, func(e runstate.Event) bool { return e.To == string(runstate.Provisioning) }) { // of earlier attempts
		return events
	}
	start := time.Time{}
	switch {
	case c.run.Current.Start > 0:
		start = time.Unix(c.run.Current.Start, 0).UTC()
	case j.State == controller.StateRunning:
		start = j.Start
	}
	// Slurm counts whole seconds: the allocation cannot be before the launch, nor after the keeper.
	if start.Before(c.run.Record.Created) {
		start = c.run.Record.Created
	}
	if len(after) > 0 && start.After(after[0].At) {
		start = after[0].At
	}
	if c.run.Current.Start > 0 || j.State == controller.StateRunning {
		events = append(events, runstate.Event{At: start, Attempt: attempt, Kind: "phase", To: string(runstate.Provisioning)})
	}
	return events
}

// living is the status of a cluster whose job has its nodes. The keeper's final state may arrive before its result file is seen.
func (c *cluster) living(j controller.Job) launcher.Status {
	if c.run.State.Exit != nil || j.Has("COMPLETING") {
		return c.releasing(c.run.State, j)
	}
	s := c.status(c.run.State, j)
	if j.State == controller.StateSuspended {
		s.Phase, s.Reason = runstate.Suspended, suspended(j)
	}
	return s
}

// suspended is the reason of a cluster whose processes, the keeper among them, Slurm has stopped.
func suspended(j controller.Job) runstate.Reason {
	return runstate.Reason{Code: "Suspended", Message: "Slurm has suspended its job (scontrol suspend, or a job of another partition)", Hint: fmt.Sprintf("`scontrol resume %d` continues it", j.Leader())}
}

// known is the status where Slurm does not answer: the last one known. What is concluded stays concluded.
func (c *cluster) known(ctx context.Context) launcher.Status {
	none := controller.Job{}
	switch {
	case c.run.Settled(ctx):
		return c.status(c.run.Result, none)
	case c.run.Result != nil:
		return c.releasing(c.run.Result, none)
	case c.run.State != nil:
		return c.living(none)
	default:
		return c.waiting(none, fateUnknown)
	}
}

// releasing is the status between the keeper's last word and the release of the nodes.
func (c *cluster) releasing(last *runstate.State, j controller.Job) launcher.Status {
	s := c.status(last, j)
	s.Phase, s.Exit = runstate.Draining, nil
	s.Reason = runstate.Reason{Code: "Completing", Message: "Slurm is releasing the nodes"}
	return s
}

// waiting is the status of a cluster whose job has not begun, or has only just.
func (c *cluster) waiting(j controller.Job, f fate) launcher.Status {
	st := firstState(c.run.Record)
	st.Phase, st.Since = runstate.Queued, c.run.Record.Created
	if last := c.run.LastWord(); last != nil { // it was requeued
		st.Attempt, st.Since, st.Attempts, st.Timeline = last.Attempt+1, last.Since, last.Attempts, last.Timeline
		st.FormerAllocations = last.FormerAllocations
		st.Allocations = runstate.Asked(last.Allocations, st.Groups, c.run.Record.Spec.Head.Early, last.Since)
	}
	s := c.status(st, j)
	switch {
	case !c.run.Committed:
		s.Reason = runstate.Reason{Code: "Launching", Message: "its files are being written"}
		if c.run.Abandoned() {
			s.Reason = runstate.Reason{Code: "Abandoned", Message: "its client has died", Hint: "`rayctl down " + c.run.Name + "` removes it"}
		}
	case f == fateAlive && j.State == controller.StatePending:
		s.Reason = controller.Explain(j)
		if !j.Start.IsZero() && j.Start.After(time.Now()) {
			s.Reason.Message += "; " + site.Expected(j.Start)
		}
	case f == fateAlive && j.State == controller.StateSuspended:
		s.Phase, s.Reason = runstate.Suspended, suspended(j)
	case f == fateAlive:
		s.Phase = runstate.Provisioning
		if s.Since = j.Start; s.Since.IsZero() {
			s.Since = c.run.Record.Created
		}
		s.Reason = runstate.Reason{Code: "StartingKeeper", Message: "the nodes are allocated, the batch script is starting"}
	default:
		s.Reason = runstate.Reason{Code: runstate.ReasonSubmitted, Message: "the job was submitted"}
	}
	asked := &s.Allocations[len(s.Allocations)-1]
	asked.Where, asked.Message = s.Where, s.Reason.Message
	if s.Phase == runstate.Provisioning {
		asked.State, asked.Granted, asked.Message = runstate.AllocationGranted, &s.Since, ""
	} else if !j.Start.IsZero() {
		asked.Expected = &j.Start
	}
	return s
}

// vanished is the last status of a cluster whose launch was cancelled, or whose record was removed.
func vanished(name string, r *rundir.Record) launcher.Status {
	c := cluster{run: &rundir.Run{Name: name, Record: r}}
	v := runstate.GivenUp()
	return c.status(c.concluded(&v), controller.Job{})
}

// firstState is the state of a cluster before its keeper has written one.
func firstState(r *rundir.Record) *runstate.State {
	s := r.Spec
	st := &runstate.State{Name: s.Name, Launcher: slurmspec.Name, SpecHash: spec.Hash(s), Attempt: 1}
	for _, g := range s.NodeGroups() {
		if g.Max > 0 {
			group := runstate.Group{Name: g.Name, Wanted: g.Min}
			if g.Elastic() {
				group.Min, group.Max = g.Min, g.Max
			}
			if g.Tasks { // as the keeper counts: those of a head without tasks are nobody's
				group.GPUs = float64(g.GPUs)
			}
			st.Groups = append(st.Groups, group)
		}
	}
	st.Allocations = runstate.Asked(nil, st.Groups, s.Head.Early, r.Created)
	return st
}
