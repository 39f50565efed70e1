package kuberay_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestSiteRules: namespaces with rules of their own for pods, those of the keeper and of the record, too.
func TestSiteRules(t *testing.T) {
	pace.Parallel(t)
	t.Run("Root", rulesForRoot)
	t.Run("Together", rulesTogether)
}

// site makes a priority class, and a policy that refuses pods without it, without an annotation, or, where labelled says so, without a label.
func (b bed) site(t *testing.T, labelled string) (class string) {
	t.Helper()
	class = "rules-" + b.namespace
	b.Create(t, "", `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: `+class+`}, value: 10}`)
	t.Cleanup(func() {
		if err := b.Core.SchedulingV1().PriorityClasses().Delete(context.Background(), class, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	b.policy(t, class, "pods", "has(object.metadata.annotations) && 'team' in object.metadata.annotations && object.spec.priorityClassName == '"+class+"' && ("+labelled+")", "say whose it is")
	b.awaitRefused(t, anyPod(), "say whose it is")
	b.Create(t, b.namespace, `{apiVersion: v1, kind: LimitRange, metadata: {name: near}, spec: {limits: [{type: Container, maxLimitRequestRatio: {cpu: "2", memory: "2"}}]}}`)
	b.awaitRefused(t, anyPod(), "ratio") // is looked at before policies
	b.Create(t, b.namespace, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: limits}, spec: {hard: {limits.cpu: "8", limits.memory: 32Gi}}}`)
	return class
}

// rulesForRoot: images that must run as root where every pod must have an annotation, a priority class, and limits near its requests, and the helpers' also a label;
// and every pod has what the file names for all of them.
func rulesForRoot(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	class := b.site(t, "!has(object.metadata.labels) || !('rayctl.io/role' in object.metadata.labels) || 'cost' in object.metadata.labels")
	s := named("ruled", "echo under rules as $(id -u); "+waitingDriver)
	s.Sections = kuberayspec.In(&kuberayspec.Section{
		PriorityClassName: class, Annotations: map[string]string{"team": "rl"}, NodeSelector: map[string]string{corev1.LabelOSStable: "linux"},
		Tolerations: []corev1.Toleration{{Key: "small", Operator: corev1.TolerationOpExists}}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "mirror"}},
		KeeperPatch: spec.Object{
			"metadata": map[string]any{"labels": map[string]any{"cost": "small"}}, "spec": map[string]any{"securityContext": map[string]any{"runAsUser": 1001}},
		},
	})
	s.Image = "rayproject/ray:2.60.0-root" // whose user is root
	root := map[string]any{"runAsNonRoot": false}
	s.Head.Sections = kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"securityContext": root, "containers": []any{
		map[string]any{"name": "beside", "image": "rayctl.test/pause:1", "securityContext": map[string]any{"runAsUser": 1000},
			"resources": map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "16Mi"}, "limits": map[string]any{"cpu": "20m", "memory": "32Mi"}}},
		limitedContainer("ray-head"),
	}}})
	r := b.begin(t, b.l, s)
	r.printed(t, "begun\n")
	pods := b.pods(t)
	if len(pods) != 3 {
		t.Errorf("%d pods, want the head's, the keeper's and the record's", len(pods))
	}
	for _, p := range pods {
		tolerates := slices.ContainsFunc(p.Spec.Tolerations, func(x corev1.Toleration) bool { return x.Key == "small" })
		if !tolerates || p.Spec.NodeSelector[corev1.LabelOSStable] != "linux" || !slices.Contains(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: "mirror"}) {
			t.Errorf("%s has not what the file gives all pods: %+v", p.Name, p.Spec)
		}
		stays := ""
		if p.Labels["ray.io/node-type"] == "head" {
			stays = "true false"
		}
		if is := strings.TrimSpace(p.Annotations["karpenter.sh/do-not-disrupt"] + " " + p.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"]); is != stays {
			t.Errorf("%s has annotations for autoscalers %q, want %q", p.Name, is, stays)
		}
	}
	b.release(t, r.id)
	r.wantEnd(t, "succeeded", 0, "under rules as 0\nbegun\ndone\n")
}

// limitedContainer is the part of a patch that gives a container of Ray's a limit of processors, which rayctl does not set.
func limitedContainer(name string) map[string]any {
	return map[string]any{"name": name, "resources": map[string]any{"limits": map[string]any{"cpu": "400m"}}}
}

// pods are all of the namespace.
func (b bed) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	pods, err := b.Core.CoreV1().Pods(b.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// meshProxy is a native sidecar that says what it needs, as those of meshes do.
const meshProxy = native + `, "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "20m", "memory": "32Mi"}}`

// rulesTogether: a namespace with all of it at one time: the profile "restricted", a LimitRange, a quota on limits, a policy that wants a label on each pod, a mesh
// that adds a sidecar to each, and a network that denies by default. doctor says what is missing, and with the keys for it an elastic cluster with gang: false
// begins when minReplicas are there, though there is no room for all replicas; then KubeRay's autoscaler takes away what nothing uses.
func rulesTogether(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	b.injectBeside(t, true, func(corev1.Pod) bool { return true }, meshProxy)
	class := b.site(t, "has(object.metadata.labels) && 'cost' in object.metadata.labels")
	b.level(t, "restricted")
	b.EnforceNetworkPolicies(t, b.namespace)
	b.Create(t, b.namespace, `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: default-deny}, spec: {podSelector: {}, policyTypes: [Ingress, Egress]}}`)
	s, gang, least, n, worker := named("together", waitingDriver), false, 1, 3, smallNode()
	s.Gang, s.Scaling.Idle = &gang, units.Limit(2*time.Second)
	s.Head.Sections = kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"containers": []any{limitedContainer("ray-head")}}})
	worker.GPUs = 4 // of the 8 that the bed's node has
	worker.Sections = kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"containers": []any{limitedContainer("ray-worker")}}})
	s.Workers = []spec.WorkerGroup{{Name: "w", MinReplicas: &least, Replicas: &n, NodeResources: worker}}
	section := &kuberayspec.Section{PriorityClassName: class, Annotations: map[string]string{"team": "rl"}}
	s.Sections = kuberayspec.In(section)

	checks := findings(t, b.l, s)
	fails(t, checks, "pods and DNS", "say whose it is")
	fails(t, checks, "pods and DNS", "kuberay.keeperPatch")
	fails(t, checks, "pods of the cluster", "say whose it is change head.patch, or ask for an exception of policy "+class)
	fails(t, checks, "network policies", "`rayctl render --networkpolicy` prints")
	s.Labels = map[string]string{"cost": "large"}
	section.KeeperPatch = spec.Object{"metadata": map[string]any{"labels": map[string]any{"cost": "small"}}}
	b.createPrintedPolicies(t)
	for name, c := range findings(t, b.l, s) {
		if !c.OK {
			t.Errorf("doctor: %s: %+v", name, c)
		}
	}

	r := b.begin(t, b.l, s)
	r.printed(t, "begun\n")
	if nodes := b.scheduled(t, r.id); nodes < 2 || nodes > 3 {
		t.Errorf("%d pods have a node, want the head and one or two workers", nodes)
	}
	for _, p := range b.pods(t) {
		if want := map[bool]string{true: "large", false: "small"}[p.Labels["ray.io/cluster"] != ""]; p.Labels["cost"] != want || len(p.Spec.InitContainers) == 0 || p.Spec.InitContainers[0].Name != "mesh-proxy" {
			t.Errorf("%s has labels %v, init containers %+v", p.Name, p.Labels, p.Spec.InitContainers)
		}
	}
	kubetest.Await(t, "the autoscaler to take away what nothing uses", func(ctx context.Context) error {
		workers, err := b.Core.CoreV1().Pods(b.namespace).List(ctx, metav1.ListOptions{LabelSelector: "ray.io/group=w"})
		if err == nil && len(workers.Items) != least {
			err = fmt.Errorf("there are %d workers", len(workers.Items))
		}
		return err
	})
	b.release(t, r.id)
	r.wantEnd(t, "succeeded", 0, "begun\ndone\n")
}

// createPrintedPolicies creates the NetworkPolicies that `rayctl render` prints for an elastic cluster.
func (b bed) createPrintedPolicies(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rayctl.yaml")
	if err := os.WriteFile(file, []byte("launcher: kuberay\nimage: rayproject/ray:2.60.0\nworkers: [{name: w, minReplicas: 1, maxReplicas: 3}]\njob: {entrypoint: 'true'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.createAll(t, newUser(t, b.kubeconfig).succeeds(t, "kind: NetworkPolicy", "render", "--networkpolicy", "-f", file).out)
}
