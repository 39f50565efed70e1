// Package batchjob is what became of a run's batch job, by the word of Slurm's controller and by the run's files: which of the user's jobs it is, whether
// it waits, runs or has ended, and why. It concludes runs whose keeper is dead.
package batchjob

import (
	"time"

	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/site"
	"github.com/rayctl/rayctl/slurm/tunnels"
)

// Job is the batch job of a run.
type Job struct {
	*rundir.Run
	Site    *site.Site
	Tunnels *tunnels.Pool // whose ways into the run are closed when it is concluded

	Answered time.Time // when the controller was asked for the answer that Ask has used last; zero: never
	Released time.Time // when Slurm released the nodes of a job that it has ended, or queued again; zero: it is not known

	stepsLeft int // of a run inside somebody else's allocation, when Slurm was asked last
	stepsAt   time.Time
}
