package objects

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/admit"
)

// TestGangCounts follows KubeRay's plug-in: head and workers, or with an autoscaler the least of them.
func TestGangCounts(t *testing.T) {
	p := planOf(t, gangFile, true)
	rc, err := p.RayCluster()
	if err != nil {
		t.Fatal(err)
	}
	members, resources := admit.Members(rc, true)
	if members != 1+4+3+1 {
		t.Errorf("%d members", members)
	}
	if cpu := resources[corev1.ResourceCPU]; cpu.MilliValue() != 2000+4*96000+3*500+1000 {
		t.Errorf("cpu %s", cpu.String())
	}
	if gpus := resources["nvidia.com/gpu"]; gpus.Value() != 32 {
		t.Errorf("gpus %s", gpus.String())
	}
}

// TestUpscaling: the one scaling.upscalingSpeed that KubeRay's autoscaler knows is a mode of it, and a patch goes before.
func TestUpscaling(t *testing.T) {
	const elastic = smallFile + "workers: [{name: w, minReplicas: 0, maxReplicas: 4}]\n"
	for scaling, want := range map[string]string{
		"": "", "scaling: {upscalingSpeed: 2}\n": "", "scaling: {upscalingSpeed: 1}\n": "Conservative",
		"scaling: {upscalingSpeed: 1}\nkuberay: {patch: {spec: {autoscalerOptions: {upscalingMode: Aggressive}}}}\n": "Aggressive",
	} {
		rc, err := planOf(t, elastic+scaling, true).RayCluster()
		if err != nil {
			t.Fatal(err)
		}
		if got := string(ptr.Deref(rc.Spec.AutoscalerOptions.UpscalingMode, "")); got != want {
			t.Errorf("%q: upscalingMode %q, want %q", scaling, got, want)
		}
	}
}
