package slurm

import (
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/controller"
)

// The keeper's last word may be heard before its result is seen, and before the nodes are free.
func TestLastWordIsNotTheEnd(t *testing.T) {
	c := &cluster{name: "x", record: &record{Spec: &spec.ClusterSpec{}}, state: &runstate.State{Phase: runstate.Gone, Exit: &runstate.Exit{Cause: "succeeded"}}}
	if s := c.living(controller.Job{}); s.Phase != runstate.Draining || s.Exit != nil {
		t.Errorf("a cluster that Slurm has not released: %s, %+v", s.Phase, s.Exit)
	}
}
