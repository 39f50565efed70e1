package observe

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestMeshRefusal: only a head that is ready and has a proxy, and resets the connections of a keeper without one, is refused by a mesh.
func TestMeshRefusal(t *testing.T) {
	resets := func() *runstate.State {
		return &runstate.State{Phase: runstate.Provisioning, Reason: runstate.Reason{Code: "HeadResets", Message: "the head resets connections"}}
	}
	meshed := func(change func(o *Snapshot)) *Snapshot {
		return scene(func(o *Snapshot) {
			head := o.head()
			head.Spec.NodeName = "node1"
			head.Spec.InitContainers = append(head.Spec.InitContainers, corev1.Container{Name: "linkerd-proxy"})
			head.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			change(o)
		})
	}
	got := LivingStatus("c", "n", meshed(func(*Snapshot) {}), resets(), "")
	if got.Phase != runstate.Provisioning || !strings.Contains(got.Reason.Message, "the container linkerd-proxy of the head's pod") ||
		got.Reason.Hint != "set linkerd.io/inject: enabled in kuberay.annotations, so that all pods are in it" || Hopeless[got.Reason.Code] == 0 {
		t.Errorf("%+v", got)
	}
	answers := resets()
	answers.Reason.Code = "WaitingForHead"
	for name, r := range map[string]runstate.Reason{
		"not ready yet": MeshRefusal(meshed(func(o *Snapshot) { o.head().Status.Conditions = nil }), resets()),
		"no proxy":      MeshRefusal(meshed(func(o *Snapshot) { o.head().Spec.InitContainers = nil }), resets()),
		"both have one": MeshRefusal(meshed(func(o *Snapshot) {
			keeper := o.head().DeepCopy()
			keeper.Labels = map[string]string{"rayctl.io/role": "keeper"}
			o.Pods = append(o.Pods, keeper)
		}), resets()),
		"no resets":      MeshRefusal(meshed(func(*Snapshot) {}), answers),
		"without a word": MeshRefusal(meshed(func(*Snapshot) {}), nil),
	} {
		if r.Code != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
