package script

import (
	"fmt"
	"time"

	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// queueSlack is how long after lifetime.queue Slurm withdraws the job at the earliest. A client that waits for the job withdraws it before, and reports why it
// waited. Slurm looks once a minute; before 23.11.4 only when its scheduler considers the job.
const queueSlack = 10 * time.Second

// Deadline is the --deadline by which Slurm withdraws a job that waits longer than lifetime.queue, although nobody watches; "" if it has none. Slurm withdraws a waiting job
// that cannot end before its deadline. So it needs a time limit: without one, Slurm withdraws the job only a minute before the deadline, and cuts the time of a job that starts.
// It must start only once: Slurm applies the same deadline to a job that it queues again, and nobody but an administrator may change a deadline (measured:
// 22.05, 24.11, 26.05).
func (p Plan) Deadline() string {
	queue, bound := p.Spec.Lifetime.Queue.Bound()
	limit := p.timeLimit()
	if !bound || limit == 0 || p.Requeues() {
		return ""
	}
	return fmt.Sprintf("now+%dseconds", int((queue + time.Duration(limit)*time.Minute + queueSlack).Seconds()))
}

// QueueNote describes who applies lifetime.queue if Slurm itself cannot; "" if Slurm does, or if the file has no such limit.
func (p Plan) QueueNote() string {
	_, bound := p.Spec.Lifetime.Queue.Bound()
	if !bound || p.Deadline() != "" || slurmspec.InCurrent(p.Spec) {
		return ""
	}
	why, next := "may be queued again for another attempt", "set job.restarts to 0 (preempted, nodeFailure, timeLimit)"
	switch {
	case p.timeLimit() > 0:
	case p.Requeues():
		why, next = "has no time limit and "+why, "set lifetime.max, and job.restarts to 0 (preempted, nodeFailure, timeLimit)"
	default:
		why, next = "has no time limit", "set lifetime.max"
	}
	return "lifetime.queue is applied by the `run` or `up` that waits for the job, not by Slurm itself: the job " + why + "; so that Slurm withdraws it, " + next
}
