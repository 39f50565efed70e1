package objects

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	volcano "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestEarlyHead: the head is in no gang, which is the required workers; all pods report to the keeper that they have nodes.
func TestEarlyHead(t *testing.T) {
	text := strings.Replace(gangFile, "head: {", "head: {early: true, ", 1)
	p := planOf(t, text, true)
	rc, err := p.RayCluster()
	if err != nil {
		t.Fatal(err)
	}
	group := p.Admitter.Object(rc).(*volcano.PodGroup)
	if want := map[string]int32{"trainer": 4, "rollout": 3, "reward": 1}; group.Spec.MinMember != 8 || !maps.Equal(group.Spec.MinTaskMember, want) {
		t.Errorf("the gang: %d, %v", group.Spec.MinMember, group.Spec.MinTaskMember)
	}
	if cpu := (*group.Spec.MinResources)[corev1.ResourceCPU]; cpu.MilliValue() != 4*96000+3*500+1000 {
		t.Errorf("cpu %s", cpu.String())
	}
	head, worker := rc.Spec.HeadGroupSpec.Template, rc.Spec.WorkerGroupSpecs[0].Template
	if head.Spec.SchedulerName != "" || p.Admitter.Info().Holds(&head) || worker.Spec.SchedulerName != "volcano" || !p.Admitter.Info().Holds(&worker) {
		t.Errorf("head %v, worker %v", head.ObjectMeta, worker.ObjectMeta)
	}
	if o := p.Orders(); !o.Start.Early || !HasEarlyHead(rc) {
		t.Errorf("%+v", o.Start)
	}
	if late, err := planOf(t, gangFile, true).RayCluster(); err != nil || HasEarlyHead(late) {
		t.Errorf("%v", err)
	}
	if _, err := admit.Choose(spec.For(decode(t, text), kuberayspec.Name), gangs(false), admit.Info{}); launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), "workers of an early head must start together") {
		t.Errorf("without Volcano: %v", err)
	}
}
