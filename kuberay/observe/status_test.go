package observe

import (
	"slices"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestAutoscaledGroups: a keeper counts the gang, Kubernetes what there is now.
func TestAutoscaledGroups(t *testing.T) {
	two := int32(2)
	o := scene(func(o *Snapshot) {
		w := o.Cluster.Spec.WorkerGroupSpecs[0]
		w.Replicas = &two
		o.Cluster.Spec.WorkerGroupSpecs = append(o.Cluster.Spec.WorkerGroupSpecs[:0], w)
	})
	st := &runstate.State{
		Phase: runstate.Ready, Groups: []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}, {Name: "w", Ready: 1, Wanted: 1, GPUs: 8}},
		Nodes: []runstate.Node{{Group: "head", State: "ALIVE"}, {Group: "w", State: "ALIVE"}, {Group: "w", State: "DEAD"}, {Group: "w", State: "ALIVE"}},
	}
	want := []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}, {Name: "w", Ready: 2, Wanted: 2, GPUs: 8}}
	if got := LivingStatus("c", "n", o, st, "").Groups; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	st.Groups = st.Groups[:1] // a group that may be empty is not in the gang
	if got := LivingStatus("c", "n", o, st, "").Groups; len(got) != 2 || got[1].Wanted != 2 {
		t.Errorf("%+v", got)
	}
}
