package slurm

import (
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/rundir"
)

// TestDrainingUntilReleased: the keeper's final state may arrive before its result file is seen, and before the nodes are free.
func TestDrainingUntilReleased(t *testing.T) {
	c := &cluster{run: &rundir.Run{Name: "x", Record: &rundir.Record{Spec: &spec.ClusterSpec{}}, State: &runstate.State{Phase: runstate.Gone, Exit: &runstate.Exit{Cause: "succeeded"}}}}
	if s := c.living(controller.Job{}); s.Phase != runstate.Draining || s.Exit != nil {
		t.Errorf("a cluster that Slurm has not released: %s, %+v", s.Phase, s.Exit)
	}
}

// TestStatusBeforeTheKeeper: the first lines of a launch are about the job, also while Slurm has no reason for it.
func TestStatusBeforeTheKeeper(t *testing.T) {
	c := &cluster{run: &rundir.Run{Name: "x", Committed: true, Record: &rundir.Record{Spec: &spec.ClusterSpec{}}}}
	for _, w := range []struct {
		job  controller.Job
		fate fate
		want string
	}{
		{controller.Job{}, fateUnknown, "the job was submitted"},
		{controller.Job{State: controller.StatePending}, fateAlive, "the job waits to be scheduled"},
		{controller.Job{State: controller.StateRunning}, fateAlive, "the nodes are allocated, the batch script is starting"},
	} {
		if s := c.waiting(w.job, w.fate); s.Reason.Message != w.want {
			t.Errorf("%+v: %q, want %q", w.job, s.Reason.Message, w.want)
		}
	}
}
