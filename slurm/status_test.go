package slurm

import (
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/batchjob"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/rundir"
)

// The keeper's final state may arrive before its result file is seen, and before the nodes are free.
func TestLastWordIsNotTheEnd(t *testing.T) {
	c := &cluster{Job: &batchjob.Job{Run: &rundir.Run{Name: "x", Record: &rundir.Record{Spec: &spec.ClusterSpec{}}, State: &runstate.State{Phase: runstate.Gone, Exit: &runstate.Exit{Cause: "succeeded"}}}}}
	if s := c.living(controller.Job{}); s.Phase != runstate.Draining || s.Exit != nil {
		t.Errorf("a cluster that Slurm has not released: %s, %+v", s.Phase, s.Exit)
	}
}
