package kuberay_test

import (
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
)

// TestElasticRestricted: in a namespace with the profile "restricted" KubeRay's autoscaler runs beside the head, and with gang: false the job begins when
// minReplicas are there, though there is no room for all replicas.
func TestElasticRestricted(t *testing.T) {
	b := newBed(t)
	b.level(t, "restricted")
	s, gang, least, n, worker := job("elastic", waitingDriver), false, 1, 3, smallNode()
	worker.GPUs = 4 // of the 8 that the bed's node has
	s.Gang = &gang
	s.Workers = []spec.WorkerGroup{{Name: "w", MinReplicas: &least, Replicas: &n, NodeResources: worker}}
	r := b.run(t, b.l, s)
	r.printed(t, "begun\n")
	if nodes := b.scheduled(t, r.id); nodes < 2 || nodes > 3 {
		t.Errorf("%d pods have a node, want the head and one or two workers", nodes)
	}
	b.release(t, r.id)
	r.wantEnd(t, "succeeded", 0, "begun\ndone\n")
}
