package objects

import (
	stdcmp "cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/leak"
)

// update writes the golden files anew: RAYCTL_UPDATE_GOLDEN=1 go test ./kuberay/objects
var update = os.Getenv("RAYCTL_UPDATE_GOLDEN") != ""

func decode(t *testing.T, text string) *spec.ClusterSpec {
	t.Helper()
	s, err := spec.Decode(strings.NewReader(text), "rayctl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const smallFile = `
name: small
launcher: kuberay
image: rayproject/ray:2.60.0
job: {entrypoint: python train.py}
`

const gangFile = `
name: grpo
labels: {team: rl}
launcher: kuberay
ray: {version: 2.60.0}
env: {HF_HOME: "/models/$(HOSTNAME)/$x"}
setup: "ulimit -Sn 65535"
secrets: [WANDB_API_KEY, {name: X, secretKeyRef: {name: s, key: k}}]
mounts: [{mountPath: /models, readOnly: true, source: {kuberay: {persistentVolumeClaim: {claimName: models}}}}]
head: {cpus: 2, memory: 8Gi, resources: {head: 1}, labels: {zone: a}, env: {OWN: "head's", HF_HOME: /mine}}
workers:
  - {name: trainer, replicas: 4, cpus: 96, memory: 1500Gi, gpus: 8, gpuType: h100, shm: 200Gi}
  - {name: rollout, replicas: 3, cpus: 500m, memory: 8Gi, objectStoreMemory: 2Gi, objectSpillingDirectory: "/spill/it's $x", resources: {rollout: 1, "it's": 2}, kuberay: {limits: {rdma/ib: 8}, nodeSelector: {zone: a}}}
  - {name: reward, replicas: 2, minReplicas: 1, maxReplicas: 5, image: "other:2", patch: {spec: {hostNetwork: true, containers: [{name: ray-worker, env: [{name: E, value: v}]}]}}}
lifetime: {queue: 12h, max: 4h, start: 2h}
gpuTypes: {h100: {nodeSelector: {gpu: h100}, tolerations: [{key: gpu, operator: Exists}]}}
kuberay:
  namespace: rl
  queue: research
  priorityClassName: high
  serviceAccountName: ray
  imagePullSecrets: [{name: registry}]
  patch: {metadata: {annotations: {a: b}}, spec: {headGroupSpec: {serviceType: ClusterIP}}}
job: {entrypoint: python grpo.py, grace: 20s}
`

func rendered(t *testing.T, text string) map[string]string {
	t.Helper()
	s := spec.For(decode(t, text), kuberayspec.Name)
	p, err := NewPlan(s, stdcmp.Or(kuberayspec.Of(s).Namespace, "default"), "ann@laptop", admit.All())
	if err != nil {
		t.Fatal(err)
	}
	files, err := Render(p)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		out[f.Name] = string(f.Content)
	}
	return out
}

// TestGolden compares what Launch would create with testdata/.
func TestGolden(t *testing.T) {
	for name, file := range map[string]string{"small": smallFile, "gang": gangFile, "keeperless": smallFile + "kuberay: {keeper: none}\n"} {
		for part, got := range rendered(t, file) {
			path := filepath.Join("testdata", name, part)
			if update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s/%s (-golden +now):\n%s", name, part, diff)
			}
		}
	}
}

// gangs are the schedulers of a Kubernetes with or without Volcano.
func gangs(volcano bool) admit.Served {
	if volcano {
		return admit.All()
	}
	return nil
}

func planOf(t *testing.T, text string, volcano bool) *Plan {
	t.Helper()
	p, err := NewPlan(spec.For(decode(t, text), kuberayspec.Name), "rl", "ann@laptop", gangs(volcano))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPatchAddsContainers: whatever a patch adds, Ray's container is the first, which KubeRay starts Ray in; the others keep the order of the merge.
func TestPatchAddsContainers(t *testing.T) {
	patch := func(ray string) string {
		return "{spec: {containers: [{name: proxy, image: p}, {name: metrics, image: m}, {name: " + ray + ", env: [{name: E, value: v}]}]}}"
	}
	rc, err := planOf(t, smallFile+"head: {patch: "+patch("ray-head")+"}\nworkers: [{name: w, replicas: 1, patch: "+patch("ray-worker")+"}]\n", true).RayCluster()
	if err != nil {
		t.Fatal(err)
	}
	for want, template := range map[string]*corev1.PodTemplateSpec{
		"ray-head proxy metrics": &rc.Spec.HeadGroupSpec.Template, "ray-worker proxy metrics": &rc.Spec.WorkerGroupSpecs[0].Template,
	} {
		var names []string
		for _, c := range template.Spec.Containers {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("containers %q, want %q", got, want)
		}
		if env := rayContainer(template).Env; env[0].Name != "E" && env[len(env)-1].Name != "E" {
			t.Errorf("%s has not the patch's variable: %v", want, env)
		}
	}
}

// TestGroupsOfTheKeeper: its orders have each group by name, also a group whose minimum is 0 nodes.
func TestGroupsOfTheKeeper(t *testing.T) {
	groups := planOf(t, smallFile+"workers: [{name: elastic, minReplicas: 0, replicas: 2, maxReplicas: 4, gpus: 1}, {name: needed, replicas: 2}]\n", true).groups()
	var got []string
	for _, g := range groups {
		got = append(got, fmt.Sprintf("%s %d", g.Name, g.Count))
	}
	if want := []string{"head 1", "elastic 0", "needed 2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestKeptPackages: packages are kept for the next keeper where a Secret has room for all of them.
func TestKeptPackages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "package.zip")
	if err := os.WriteFile(path, []byte("zipped"), 0o600); err != nil {
		t.Fatal(err)
	}
	packages := &launcher.Packages{Files: []launcher.PackageFile{{URI: "gcs://_ray_pkg_a.zip", Path: path, Size: 6}, {URI: "gcs://_ray_pkg_b.zip", Path: path, Size: keepLimit - 6}}}
	p := planOf(t, smallFile, true)
	p.Kept = Keepable(packages)
	secret, err := p.PackagesSecret()
	if err != nil || secret == nil || len(secret.Data) != 2 || string(secret.Data["package-a.zip"]) != "zipped" {
		t.Fatalf("the Secret of two packages: %+v, %v", secret, err)
	}
	volumes := p.KeeperJob().Spec.Template.Spec.Volumes
	if v := volumes[len(volumes)-1]; v.Secret == nil || v.Secret.SecretName != secret.Name || len(v.Secret.Items) != 2 {
		t.Errorf("the keeper's pod has not these packages: %+v", volumes)
	}
	packages.Files[1].Size++
	p.Kept = Keepable(packages)
	if secret, err := p.PackagesSecret(); secret != nil || err != nil || len(p.KeeperJob().Spec.Template.Spec.Volumes) != len(volumes)-1 {
		t.Errorf("more than a Secret has room for: %+v, %v", secret, err)
	}
}

// TestSecrets: values of secrets are in the Secret and in no other object.
func TestSecrets(t *testing.T) {
	p, err := planOf(t, gangFile, true).With(launcher.Payload{Secrets: map[string]string{"WANDB_API_KEY": "s3cr3t-value"}})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := p.Secret()
	if err != nil {
		t.Fatal(err)
	}
	if string(secret.Data["env.WANDB_API_KEY"]) != "s3cr3t-value" || string(secret.Data["auth_token"]) != p.Token {
		t.Error("the Secret does not hold the secrets")
	}
	for _, key := range []string{OrdersKey, SpecKey} {
		if how := leak.Find(secret.Data[key], "s3cr3t-value"); how != "" {
			t.Errorf("a secret is in %s, %s", key, how)
		}
	}
	rc, err := p.RayCluster()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []any{p.KeeperJob(), p.Service(), rc, p.Admitter.Object(rc), p.RecordJob()} {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{"s3cr3t-value", p.Token} {
			if how := leak.Find(text, value); how != "" {
				t.Errorf("a secret is in %T, %s", o, how)
			}
		}
	}
	for _, source := range p.keeperFiles() {
		for _, item := range source.Secret.Items {
			if strings.HasPrefix(item.Key, envPrefix) {
				t.Errorf("the keeper's pod sees %s", item.Key)
			}
		}
	}
	if _, err := planOf(t, gangFile, true).With(launcher.Payload{}); launcher.ExitCode(err) != runstate.CodeSpec {
		t.Errorf("a secret without a value: %v", err)
	}
}

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

func TestChooseScheduler(t *testing.T) {
	gpus := strings.Replace(smallFile, "job:", "workers: [{name: a, replicas: 2, gpus: 1}]\njob:", 1)
	for _, c := range []struct {
		name, file     string
		volcano, kueue bool
		want           string // scheduler, or part of the error
	}{
		{"served", gpus, true, false, "volcano"},
		{"a GPU gang without gang scheduling", gpus, false, false, "set gang: false"},
		{"no gang wanted", gpus + "gang: false\n", false, false, "none"},
		{"no gang wanted, served", gpus + "gang: false\n", true, false, "none"},
		{"one pod", smallFile, false, false, "none"},
		{"wanted but not there", smallFile + "kuberay: {scheduler: volcano}\n", false, false, "does not serve Volcano"},
		{"under Kueue", gpus, true, true, "none"},
		{"under Kueue, not served", gpus, false, true, "none"},
		{"under Kueue, wanted", gpus + "kuberay: {scheduler: volcano}\n", true, true, "leave out kuberay.scheduler"},
		{"not wanted", smallFile + "kuberay: {scheduler: none}\n", true, false, "none"},
	} {
		var by admit.Info
		if c.kueue {
			by = kueue
		}
		s, err := admit.Choose(spec.For(decode(t, c.file), kuberayspec.Name), gangs(c.volcano), by)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = s.Info().Name
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRayVersion(t *testing.T) {
	for image, want := range map[string]string{
		"rayproject/ray:2.60.0": "2.60.0", "rayproject/ray:2.9.3-py311-gpu": "2.9.3", "host:5000/ray:2.52.1": "2.52.1", "me/train:v5": "", "host:5000/ray": "",
		"host/My-Ray_gpu:2.55.1.post1": "2.55.1", "verlai/verl:0.9.1": "", "ray/train:0.9.1": "",
	} {
		if got := rayVersion(spec.For(&spec.ClusterSpec{Image: image}, kuberayspec.Name)); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}

// TestImagesRay: where nothing says which Ray the image has, the cluster is made for a recent one, and the keeper is told to refuse an older one.
func TestImagesRay(t *testing.T) {
	for name, c := range map[string]struct{ file, version, least string }{
		"no tag":          {strings.Replace(smallFile, "rayproject/ray:2.60.0", "me/train:v5", 1), leastOfImage, leastOfImage},
		"another's tag":   {strings.Replace(smallFile, "rayproject/ray:2.60.0", "verlai/verl:0.9.1", 1), leastOfImage, leastOfImage},
		"the image's tag": {smallFile, "2.60.0", ""},
		"the file":        {strings.Replace(smallFile, "rayproject/ray:2.60.0", "me/train:v5", 1) + "ray: {version: 2.55.1}\n", "2.55.1", ""},
	} {
		p := planOf(t, c.file, true)
		rc, err := p.RayCluster()
		if err != nil {
			t.Fatal(err)
		}
		if rc.Spec.RayVersion != c.version || rc.Spec.AuthOptions == nil || rayContainer(&rc.Spec.HeadGroupSpec.Template).ReadinessProbe == nil || p.Orders().Ray.Least != c.least {
			t.Errorf("%s: made for Ray %s, token %v, least %q", name, rc.Spec.RayVersion, rc.Spec.AuthOptions, p.Orders().Ray.Least)
		}
	}
}

// TestOldRay: a cluster of a Ray without tokens has none, and Ray is started without authentication.
func TestOldRay(t *testing.T) {
	rc, err := planOf(t, strings.Replace(smallFile, "2.60.0", "2.40.0", 1), true).RayCluster()
	if err != nil {
		t.Fatal(err)
	}
	if rc.Spec.AuthOptions != nil || rayContainer(&rc.Spec.HeadGroupSpec.Template).ReadinessProbe != nil {
		t.Error("Ray 2.40 has neither token nor the health path")
	}
}

var kueue = admit.Kueue{}.Info()

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
