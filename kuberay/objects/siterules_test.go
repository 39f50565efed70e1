package objects

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

const (
	doNotDisrupt = "karpenter.sh/do-not-disrupt"
	safeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
)

// TestNewerFields: fields of the RayCluster that rayctl's KubeRay does not have are in what is created, also where rayctl changes what is around them.
func TestNewerFields(t *testing.T) {
	const text = "name: x\nlauncher: kuberay\nkuberay:\n  patch: {spec: {rayVersion: 2.59.0}}\n  rayCluster:\n    rayVersion: 2.60.0\n    networkPolicy: {mode: DenyAll}\n    gcsFaultToleranceOptions: {backend: rocksdb}\n" +
		"    headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: h, image: 'rayproject/ray:2.60.0', wasm: true}]}}}\n" +
		"    workerGroupSpecs: [{groupName: a, replicas: 1, minReplicas: 1, maxReplicas: 1, drain: 5, rayStartParams: {}, template: {spec: {containers: [{name: h, image: 'rayproject/ray:2.60.0'}]}}}]\n"
	p, err := NewPlan(spec.For(decode(t, text), kuberayspec.Name), "rl", "ann@laptop", gangs(false))
	if err != nil {
		t.Fatal(err)
	}
	files, err := Render(p)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(files, func(f launcher.File) bool { return f.Name == "raycluster.yaml" })
	for _, want := range []string{"\n  networkPolicy:\n    mode: DenyAll\n", "\n    backend: rocksdb\n", "wasm: true\n", "drain: 5\n", "rayVersion: 2.59.0\n"} {
		if !strings.Contains(string(files[i].Content), want) {
			t.Errorf("%q is not in\n%s", want, files[i].Content)
		}
	}
}

// TestStaying: autoscalers leave the pods of a gang alone, also of a RayCluster that is taken as it is, unless the file sets the annotation itself.
// TestNeverMade: a RayCluster of which KubeRay would make nothing is refused before anything is created.
func TestNeverMade(t *testing.T) {
	const rayCluster = "name: x\nlauncher: kuberay\nkuberay: {rayCluster: {%s rayVersion: 2.60.0, headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: h, image: 'rayproject/ray:2.60.0'}]}}}}}\n"
	for text, want := range map[string]string{
		fmt.Sprintf(rayCluster, "suspend: true,"):                        "suspend: true keeps KubeRay from making its pods",
		smallFile + "kuberay: {patch: {spec: {suspend: true}}}\n":        "suspend: true keeps KubeRay from making its pods",
		fmt.Sprintf(rayCluster, "managedBy: kueue.x-k8s.io/multikueue,"): "managedBy: kueue.x-k8s.io/multikueue keeps the KubeRay operator",
		fmt.Sprintf(rayCluster, "managedBy: ray.io/kuberay-operator,"):   "",
		fmt.Sprintf(rayCluster, "suspend: false,"):                       "",
	} {
		_, err := NewPlan(spec.For(decode(t, text), kuberayspec.Name), "rl", "ann@laptop", gangs(false))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestStaying(t *testing.T) {
	adopted := "name: small\nlauncher: kuberay\nkuberay: {rayCluster: {rayVersion: 2.60.0, headGroupSpec: {rayStartParams: {}, template: {%s" +
		"spec: {containers: [{name: ray, image: rayproject/ray:2.60.0}]}}}}}\njob: {entrypoint: python train.py}\n"
	for name, test := range map[string]struct{ file, disrupt, evict string }{
		"gang":              {smallFile, "true", "false"},
		"no gang":           {smallFile + "gang: false\n", "", ""},
		"own annotation":    {smallFile + "kuberay: {annotations: {" + doNotDisrupt + ": \"false\"}}\n", "false", "false"},
		"own patch":         {smallFile + "head: {patch: {metadata: {annotations: {" + safeToEvict + ": null}}}}\n", "true", ""},
		"taken as it is":    {fmt.Sprintf(adopted, ""), "true", "false"},
		"taken with own":    {fmt.Sprintf(adopted, "metadata: {annotations: {"+safeToEvict+": \"true\"}}, "), "true", "true"},
		"another of theirs": {smallFile + "kuberay: {annotations: {team: rl}}\n", "true", "false"},
	} {
		t.Run(name, func(t *testing.T) {
			rc, err := planOf(t, test.file, false).RayCluster()
			if err != nil {
				t.Fatal(err)
			}
			got := rc.Spec.HeadGroupSpec.Template.Annotations
			if got[doNotDisrupt] != test.disrupt || got[safeToEvict] != test.evict {
				t.Errorf("%v, want %q and %q", got, test.disrupt, test.evict)
			}
		})
	}
}

// TestHelperPods: keeper and record have what the file gives all pods, and limits that are at most twice their requests.
func TestHelperPods(t *testing.T) {
	p := planOf(t, smallFile+"kuberay: {priorityClassName: high, annotations: {team: rl}, nodeSelector: {a: b}}\n", false)
	for _, pod := range []corev1.PodTemplateSpec{p.KeeperJob().Spec.Template, p.RecordJob().Spec.Template} {
		if pod.Annotations["team"] != "rl" || pod.Spec.PriorityClassName != "high" || pod.Spec.NodeSelector["a"] != "b" {
			t.Errorf("%s: annotations %v, spec %+v", pod.Labels[LabelRole], pod.Annotations, pod.Spec)
		}
		r := pod.Spec.Containers[0].Resources
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := r.Requests[name], r.Limits[name]
			if request.IsZero() || limit.Cmp(request) < 0 || limit.MilliValue() > 2*request.MilliValue() {
				t.Errorf("%s: %s %s, limit %s", pod.Labels[LabelRole], name, request.String(), limit.String())
			}
		}
	}
}

// TestKeeperPatch: it reaches both pods, not what they run nor what they are found by, and one that cannot be applied is refused.
func TestKeeperPatch(t *testing.T) {
	p := planOf(t, smallFile+`kuberay:
  keeperPatch:
    metadata: {labels: {cost: "'; $(rm -rf /) \"x", rayctl.io/name: other}, annotations: {sidecar.istio.io/inject: "true"}}
    spec:
      restartPolicy: Always
      securityContext: {runAsUser: 1000}
      imagePullSecrets: [{name: mirror}]
      tolerations: [{key: small, operator: Exists}]
      volumes: [{name: rayctl, hostPath: {path: /}}, {name: certs, secret: {secretName: certs}}]
      containers:
      - {name: beside, image: other}
      - {name: keeper, command: [evil], resources: {requests: {cpu: 50m}}, volumeMounts: [{name: certs, mountPath: /certs}]}
      - {name: driver, image: mirror/python:3, args: [evil]}
`, false)
	plain := planOf(t, smallFile, false)
	for _, x := range []struct{ got, want corev1.PodTemplateSpec }{{p.KeeperJob().Spec.Template, plain.KeeperJob().Spec.Template}, {p.RecordJob().Spec.Template, plain.RecordJob().Spec.Template}} {
		if n := len(x.got.Spec.Containers); n != 2 {
			t.Errorf("%d containers", n)
		}
		c, was := x.got.Spec.Containers[0], x.want.Spec.Containers[0]
		if c.Name != was.Name || !slices.Equal(c.Command, was.Command) || len(c.Args) > 0 || x.got.Spec.RestartPolicy != corev1.RestartPolicyNever || x.got.Labels[LabelName] != "small" {
			t.Errorf("it has changed what is ours: %+v", x.got)
		}
		if x.got.Labels["cost"] != `'; $(rm -rf /) "x` || x.got.Annotations[istioInject] != "true" || *x.got.Spec.SecurityContext.RunAsUser != 1000 || !*x.got.Spec.SecurityContext.RunAsNonRoot ||
			len(x.got.Spec.Tolerations) != 1 || len(x.got.Spec.ImagePullSecrets) != 1 {
			t.Errorf("it is not applied: %+v", x.got)
		}
		if v := x.got.Spec.Volumes; len(v) != 3 || slices.ContainsFunc(v, func(v corev1.Volume) bool { return v.HostPath != nil }) {
			t.Errorf("volumes: %+v", v)
		}
	}
	for _, bad := range []string{"{spec: {containers: 3}}", "{spec: {nosuch: 1}}", "{spec: {containers: [{name: driver, $patch: delete}]}}"} {
		_, err := NewPlan(spec.For(decode(t, smallFile+"kuberay: {keeperPatch: "+bad+"}\n"), kuberayspec.Name), "rl", "ann@laptop", gangs(false))
		if launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), "kuberay.keeperPatch cannot be applied") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if cpu := p.KeeperJob().Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]; cpu.String() != "50m" {
		t.Errorf("the keeper's processors: %s", cpu.String())
	}
}

// TestKeeperIsBound: the keeper's Job has a deadline for every cluster file.
func TestKeeperIsBound(t *testing.T) {
	for lifetime, want := range map[string]time.Duration{
		"{queue: 1h, max: 2h}": 3*time.Hour + AfterMax(planOf(t, smallFile, false).Spec), "{max: 2h}": Longest, "{queue: unlimited, max: unlimited}": Longest, "{}": Longest,
	} {
		job := planOf(t, smallFile+"lifetime: "+lifetime+"\n", false).KeeperJob()
		if got := ptr.Deref(job.Spec.ActiveDeadlineSeconds, 0); got != int64(want.Seconds()) {
			t.Errorf("lifetime %s: %d seconds, want %s", lifetime, got, want)
		}
	}
}
