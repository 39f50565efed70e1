package observe

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	volcano "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestEarlyHead: while the workers of an early head wait the reason is what its programs do, and what Kubernetes reports about the workers; the keeper's reason
// where Kubernetes reports nothing.
func TestEarlyHead(t *testing.T) {
	o := scene(func(o *Snapshot) {
		onNode(o, corev1.ContainerStatus{Name: "ray-head", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
		withGang(o, volcano.PodGroupPending)
	})
	st := &runstate.State{Phase: runstate.Queued, Allocations: []runstate.Allocation{{Purpose: runstate.PurposeGang, State: "queued"}}, Reason: runstate.Reason{Code: "WaitingForGang", Message: "the keeper's"}}
	for _, c := range []struct {
		runs string
		job  *runstate.Job
	}{
		{"", nil},
		{"job.prepare runs; ", &runstate.Job{State: runstate.JobWaiting, Prepare: &runstate.Prepare{State: runstate.JobRunning}}},
		{"", &runstate.Job{State: runstate.JobWaiting, Prepare: &runstate.Prepare{State: runstate.JobSucceeded}}},
		{"the driver runs; ", &runstate.Job{State: runstate.JobRunning}},
		{"the driver runs; ", &runstate.Job{State: runstate.JobPending, Prepare: &runstate.Prepare{State: runstate.JobSucceeded}}},
	} {
		st.Job = c.job
		if got := LivingStatus("c", "n", o, st, ""); got.Phase != runstate.Queued || got.Reason.Code != "QueueFull" || got.Reason.Message != c.runs+"the gang waits in queue default" {
			t.Errorf("%+v, want %q", got.Reason, c.runs)
		}
	}
	o.Pods[1].Spec.NodeName = "node2"
	if got := LivingStatus("c", "n", o, st, ""); got.Reason.Message != "the keeper's" {
		t.Errorf("%+v", got.Reason)
	}
	for _, early := range []bool{false, true} { // the head has the gang's annotation
		if early {
			o.Cluster.Spec.HeadGroupSpec.Template.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "RAYCTL_TELL_GRANT"}}}}
		}
		if err := o.Refused("c"); (err != nil) != early || early && !strings.Contains(err.Error(), "--batch-scheduler=volcano") {
			t.Errorf("early %v: %v", early, err)
		}
	}
}
