package slurmspec

import (
	"os"
	"reflect"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
)

// Values of slurm.job.
const (
	NewJob     = "new"
	CurrentJob = "current"
)

// Around is the variable with the allocation's id in the environment of its programs (salloc(1), sbatch(1)).
const Around = "SLURM_JOB_ID"

// InCurrent reports whether the cluster is to be in the allocation that its launch is called in.
func InCurrent(s *spec.ClusterSpec) bool { return sectionOf(s).Job == CurrentJob }

// current refuses what somebody else's allocation cannot be asked for: it is there already, and its end is its owner's.
func current(v *spec.Validator, s *spec.ClusterSpec, c *Section) {
	const key, here = "slurm.job", "an existing allocation cannot be changed in this way"
	away := c.Host != "" && c.Transport != "local" || c.RESTURL != "" && c.Transport != "local"
	v.FailIf(away, key, "leave slurm.host and slurm.restUrl out, or set slurm.transport to local", "current is the allocation in which this command runs, and the file names a Slurm on another machine")
	for name, value := range map[string]string{"comment": c.Comment, "dependency": c.Dependency, "begin": c.Begin} {
		v.FailIf(value != "", "slurm."+name, "leave it out, or slurm.job", "with slurm.job: current %s", here)
	}
	v.FailIf(s.Head.Early, "head.early", "leave it out, or slurm.job", "with slurm.job: current all nodes are already allocated: %s", here)
	refuseGroup(v, "slurm", &c.Group, here)
	for _, g := range s.NodeGroups() {
		if own := GroupOf(g.Sections); own != nil {
			refuseGroup(v, g.Path()+".slurm", own, here)
		}
	}
	r := s.Job.Restarts
	v.FailIf(r.NodeFailure != 0 || r.TimeLimit != 0 || r.Preempted != nil && *r.Preempted != 0, "job.restarts", "set only job.restarts.driver, or leave slurm.job out",
		"with slurm.job: current no attempt can follow the loss of the allocation, because rayctl requests no other one")
}

// refuseGroup refuses all that a group can ask Slurm for.
func refuseGroup(v *spec.Validator, at string, g *Group, why string) {
	fields := reflect.TypeFor[Group]()
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		v.FailIf(!reflect.ValueOf(g).Elem().Field(i).IsZero(), at+"."+name, "leave it out, or slurm.job", "with slurm.job: current %s", why)
	}
}

// aroundUs returns notes for a user who calls rayctl in an allocation: that the cluster gets a separate job, or which keys have no effect there.
func aroundUs(s *spec.ClusterSpec) []string {
	c, id := sectionOf(s), os.Getenv(Around)
	switch {
	case c.Job == CurrentJob && s.Lifetime.Queue != 0:
		return []string{"lifetime.queue has no effect with slurm.job: current: the allocation already exists"}
	case c.Job != CurrentJob && id != "" && (c.Host == "" && c.RESTURL == "" || c.Transport == "local"):
		return []string{"this command runs inside Slurm job " + id + ", but the cluster gets a job of its own; slurm.job: current (--slurm-job current) uses job " + id}
	}
	return nil
}
