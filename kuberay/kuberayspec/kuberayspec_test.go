package kuberayspec_test

import (
	"strings"
	"testing"

	_ "github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/spec"
)

func mustDecode(t *testing.T, text string) *spec.ClusterSpec {
	t.Helper()
	s, err := spec.Decode(strings.NewReader(text), "rayctl.yaml")
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return s
}

// early is a cluster with an early head, to which a line can be added.
const early = "launcher: kuberay\nimage: i\nhead: {early: true}\nworkers: [{name: a, gpus: 1}]\n"

func TestValidate(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"type unknown to Kubernetes", "launcher: kuberay\nimage: i\nworkers: [{name: a, gpus: 1, gpuType: h100}]", "gpuTypes has no entry for nodes with \"h100\": add gpuTypes.h100"},
		{"a mount by its path alone", "launcher: kuberay\nimage: i\nmounts: [/shared]", "add source.kuberay, as in {mountPath: /shared, source: {kuberay: {persistentVolumeClaim: {claimName: NAME}}}}"},
		{"patch", "kuberay: {patch: {spec: {workerGroupSpecs: []}}}", "use workers[].patch"},
		{"scheduler", "kuberay: {scheduler: kueue}", `"kueue" is not possible here: use auto, volcano, none`},
		{"namespace", "kuberay: {namespace: A_b}", `"A_b" is not a namespace`},
		{"gang without scheduler", "launcher: kuberay\nimage: i\nkuberay: {scheduler: none}\nworkers: [{name: a, replicas: 2, gpus: 1}]", "without a gang scheduler some of them may start without the others"},
		{"early head, workers one by one", early + "gang: false", "head.early: on Kubernetes an early head waits for workers that are admitted together"},
		{"early head without a scheduler of gangs", early + "kuberay: {scheduler: none}", "head.early: on Kubernetes an early head waits for workers that are admitted together"},
		{"early head without a keeper", early + "kuberay: {keeper: none}", "head.early: without a keeper in Kubernetes nothing ends the head"},
		{"early head under Kueue", early + "labels: {kueue.x-k8s.io/queue-name: q}", "head.early: Kueue admits a RayCluster as a whole"},
		{"early head of a RayCluster", "launcher: kuberay\nhead: {early: true}\nkuberay: {rayCluster: {headGroupSpec: {}}}", "head: the RayCluster is taken as it is"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := spec.Validate(mustDecode(t, c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// TestIgnored: KubeRay's pods have the image's Python, and its autoscaler has two speeds; others have no pods to patch.
func TestIgnored(t *testing.T) {
	s := mustDecode(t, "ray: {python: /v}\njob: {shareDir: /team}\nworkers: [{name: a, patch: {spec: {hostNetwork: true}}}]")
	if got := spec.SubstrateOf("kuberay").Ignored(s); len(got) != 2 || !strings.HasPrefix(got[0], "job.shareDir is ignored: ") || !strings.HasPrefix(got[1], "ray.python is ignored: ") {
		t.Errorf("%q", got)
	}
	const elastic = "workers: [{name: a, minReplicas: 0, maxReplicas: 3}]\nscaling: {upscalingSpeed: "
	for speed, want := range map[string]string{"1": "", "1000": "", "2.5": "scaling.upscalingSpeed is ignored: KubeRay's autoscaler does not know 2.5, only 1 "} {
		got := strings.Join(spec.SubstrateOf("kuberay").Ignored(mustDecode(t, elastic+speed+"}")), "\n")
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("speed %s: %q, want %q", speed, got, want)
		}
	}
	if got := spec.SubstrateOf("kuberay").Unused(s, spec.SubstrateOf("local")); got != "workers.a.patch is ignored: the local launcher has no pods" {
		t.Errorf("%q", got)
	}
}
