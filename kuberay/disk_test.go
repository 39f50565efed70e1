package kuberay_test

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/pace"
)

// TestPrepareFillsDisk: job.prepare writes more than the head's pod may. The kubelet evicts the pod, whatever job.restarts says of preemptions the run ends, and its cause is the kubelet's where the keeper
// may look at pods.
func TestPrepareFillsDisk(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := named("full", "echo never")
	s.Sections = kuberayspec.In(&kuberayspec.Section{KeeperServiceAccountName: b.account(t, "pod-watcher", permit("pods", "list", "watch"))})
	s.Job.Prepare = "echo begun; head -c 500M /dev/zero > /tmp/weights; echo written; sleep 600"
	s.Head.Sections = kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "ray-head", "resources": map[string]any{"limits": map[string]any{"ephemeral-storage": "300Mi"}}},
	}}})
	r := b.begin(t, b.l, s)
	e := r.wantEnd(t, "lost", runstate.CodeLost, "==> job.prepare <==\nbegun\nwritten\n")
	if !strings.Contains(e.Message, "the head's pod full-head-") || !strings.Contains(e.Message, "was evicted: Pod ephemeral local storage usage exceeds the total limit of containers 300Mi; write less there") {
		t.Errorf("%+v", e)
	}
	if left := b.left(t, r.id); len(left) > 0 || len(r.outcome.Receipt.Attempts) != 1 {
		t.Errorf("left: %v; attempts: %+v", left, r.outcome.Receipt.Attempts)
	}
}
