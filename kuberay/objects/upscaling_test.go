package objects

import (
	"testing"

	"k8s.io/utils/ptr"
)

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
