package objects

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

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

// TestPatchOfHeadsGroup: the patch of the group that the head is on names the container of the workers, and changes that of the head, too.
func TestPatchOfHeadsGroup(t *testing.T) {
	rc, err := planOf(t, smallFile+"head: {on: w}\nworkers: [{name: w, replicas: 2, patch: {spec: {containers: [{name: ray-worker, securityContext: {capabilities: {add: [IPC_LOCK]}}}]}}}]\n", true).RayCluster()
	if err != nil {
		t.Fatal(err)
	}
	for _, template := range []*corev1.PodTemplateSpec{&rc.Spec.HeadGroupSpec.Template, &rc.Spec.WorkerGroupSpecs[0].Template} {
		c := template.Spec.Containers
		if len(c) != 1 || len(c[0].SecurityContext.Capabilities.Add) != 1 || c[0].SecurityContext.Capabilities.Add[0] != "IPC_LOCK" {
			t.Errorf("the containers are %+v", c)
		}
	}
}
