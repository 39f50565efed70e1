package objects

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// TestTellsWaiting: the head of an elastic cluster tells a keeper in a pod what waits for nodes that no group has, whose memory is known only from the file; other pods never do.
func TestTellsWaiting(t *testing.T) {
	const elastic = "workers: [{name: w, minReplicas: 0, maxReplicas: 4, cpus: 0.5, memory: 2Gi}, {name: fixed, replicas: 2}]\n"
	for text, want := range map[string]string{
		elastic:                               `{"groups":{"fixed":{"CPU":1,"GPU":0},"head":{},"w":{"CPU":1,"GPU":0,"memory":2147483648}},"keeper":"http://small-keeper.rl.svc:8476","most":7}`,
		elastic + "kuberay: {keeper: none}\n": "",
		elastic + "ray: {version: 2.49.0}\n":  "",
		"workers: [{name: w, replicas: 2}]\n": "",
	} {
		rc, err := planOf(t, smallFile+text, true).RayCluster()
		if err != nil {
			t.Fatal(err)
		}
		if got := waitingOf(&rc.Spec.HeadGroupSpec.Template); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		if got := waitingOf(&rc.Spec.WorkerGroupSpecs[0].Template); got != "" {
			t.Errorf("%q: a worker has %s", text, got)
		}
	}
}

func waitingOf(t *corev1.PodTemplateSpec) string {
	for _, e := range rayContainer(t).Env {
		if e.Name == "RAYCTL_WAITING" {
			return e.Value
		}
	}
	return ""
}
