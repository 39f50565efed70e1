package slurm

import (
	"slices"
	"time"

	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
)

// findJob returns the cluster's job, all its components together: a heterogeneous job holds nodes while one of them does.
func (c *cluster) findJob(jobs []controller.Job) (controller.Job, bool) {
	found := c.candidates(jobs)
	if len(found) == 0 || c.run.JobID == 0 && len(found) > 1 {
		return controller.Job{}, false
	}
	j := found[0]
	for _, other := range jobs {
		if j.HetJobID != 0 && other.HetJobID == j.HetJobID && other.ID != j.ID && !other.Ended() && j.Ended() {
			j.State, j.Flags = other.State, other.Flags
		}
	}
	return j, true
}

// candidates are the jobs that may be the cluster's, one of each heterogeneous job: at most one where its id is known, or its nonce is seen.
func (c *cluster) candidates(jobs []controller.Job) (found []controller.Job) {
	owns := c.owns
	if c.run.JobID == 0 {
		owns = func(j controller.Job) bool { return script.NonceOf(j.Comment) == c.run.Record.Nonce }
		if !slices.ContainsFunc(jobs, owns) {
			owns = c.resembles
		}
	}
	leaders := map[int]bool{}
	for _, j := range jobs {
		if leader := j.Leader(); owns(j) && !leaders[leader] {
			leaders[leader] = true
			found = append(found, j)
		}
	}
	return found
}

// owns reports whether a job is the one whose id the run's directory has. Slurm begins with the first id again after MaxJobId (slurm.conf(5)): another job
// of the same user that got it then has neither the nonce nor the directory nor the name.
func (c *cluster) owns(j controller.Job) bool {
	if j.Leader() != c.run.JobID {
		return false
	}
	if nonce := script.NonceOf(j.Comment); nonce != "" {
		return nonce == c.run.Record.Nonce
	}
	return j.WorkDir == c.run.Dir || j.Name == c.run.Record.Name
}

// submitSkew is by how much the controller's clock may be behind ours.
const submitSkew = 10 * time.Minute

// resembles reports whether a job can only be the launch's, whose id is not known because sbatch's answer was lost, although somebody rewrote its comment.
func (c *cluster) resembles(j controller.Job) bool {
	return script.NonceOf(j.Comment) == "" && j.WorkDir == c.run.Dir && j.Name == c.run.Record.Name && !j.Ended() && j.Submit.After(c.run.Record.Created.Add(-submitSkew))
}
