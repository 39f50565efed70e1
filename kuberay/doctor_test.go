package kuberay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/kubetest"
)

// TestDoctor: on a whole Kubernetes all is well, and nothing stays of what was tried; each thing that is wrong is found.
func TestDoctor(t *testing.T) {
	b := newBed(t)
	t.Run("nothing missing", func(t *testing.T) {
		s := smallSpec()
		worker := smallNode()
		worker.GPUs = 5 // of the 8 that all nodes have together
		two := 2
		s.Workers = []spec.WorkerGroup{{Name: "w", Replicas: &two, NodeResources: worker}}
		checks := findings(t, b.l, s)
		for name, want := range map[string]string{
			"Kubernetes": "v1.", "namespace": b.namespace, "permissions": "all", "gang scheduling": "queue default is Open",
			"GPUs": "all nodes together have 8, and one node at most 8, so it waits until an autoscaler brings more", "KubeRay": "the operator works", "pods and DNS": "resolves kubernetes.default.svc",
			"connections": "a pod reaches one on the same node at ports 6379, 10002, 40000, ",
			"objects":     "would accept Job, Secret, Service, RayCluster, PodGroup", "quota": "the namespace has none", "pods of the cluster": "one of each group",
			"Volcano": "its scheduler works", "named objects": "the file names no",
		} {
			if c := checks[name]; !c.OK || !strings.Contains(c.Detail, want) {
				t.Errorf("%s: %+v, want %q", name, c, want)
			}
		}
		for _, name := range []string{"sidecars", "mesh", "keeper's account"} {
			if c, found := checks[name]; found {
				t.Errorf("where there is none: %+v", c)
			}
		}
		b.NothingLeft(t, b.namespace, nil)
	})
	t.Run("cannot be met", func(t *testing.T) {
		s := smallSpec()
		worker := smallNode()
		worker.GPUs = 9
		s.Workers, s.Sections = []spec.WorkerGroup{{Name: "w", NodeResources: worker}}, kuberayspec.In(&kuberayspec.Section{Queue: "nosuch"})
		s.Image = "registry.invalid/nosuch:2.60.0"
		b.secret(t, "half", corev1.SecretTypeOpaque, "other", "x")
		s.Secrets = []spec.Secret{{Name: "A", SecretKeyRef: &spec.SecretKeyRef{Name: "half", Key: "key"}}, {Name: "B", SecretKeyRef: &spec.SecretKeyRef{Name: "half", Key: "other"}}}
		s.Workers[0].Sections = kuberayspec.PatchIn(spec.Object{"spec": map[string]any{
			"volumes": []any{
				noRuns,
				map[string]any{"name": "maybe", "secret": map[string]any{"secretName": "no-matter", "optional": true}},
			},
			"imagePullSecrets": []any{map[string]any{"name": "no-registry"}},
		}})
		checks := findings(t, b.l, s)
		fails(t, checks, "GPUs", "group w asks for 1 nodes with 9 nvidia.com/gpu")
		fails(t, checks, "gang scheduling", "no queue nosuch")
		fails(t, checks, "pods and DNS", "registry.invalid/nosuch:2.60.0")
		fails(t, checks, "named objects", `PersistentVolumeClaim no-runs does not exist, Secret half has no key "key", Secret no-registry does not exist create what is missing in namespace `+b.namespace)
	})
	t.Run("refusals", func(t *testing.T) {
		b := newBed(t)
		b.Create(t, b.namespace, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: tight}, spec: {hard: {requests.memory: 3Gi}}}`)
		b.awaitRefused(t, anyPod(), "tight") // before there is a LimitRange, whose maximum is a default, too
		b.Create(t, b.namespace, `{apiVersion: v1, kind: LimitRange, metadata: {name: small}, spec: {limits: [{type: Container, max: {memory: 1Gi}}]}}`)
		big := anyPod()
		big.Spec.Containers[0].Resources = smallContainer("2Gi")
		b.awaitRefused(t, big, "maximum memory usage")
		s := smallSpec()
		later := smallNode()
		later.GPUs, later.GPUType = 1, "later"
		s.GPUTypes = map[string]spec.GPUType{"later": {Sections: spec.Sections{kuberayspec.Name: &kuberayspec.GPUType{Resource: "example.com/gpu"}}}}
		s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: later}}
		checks := findings(t, b.l, s)
		if c := checks["GPUs"]; !c.OK || c.Detail != "not checked: no node has example.com/gpu now, and group w waits until an autoscaler brings nodes with 1" {
			t.Errorf("a pool of GPUs that is empty: %+v", c)
		}
		fails(t, checks, "quota", "needs 4352Mi of requests.memory, and quota tight allows 3Gi in all change workers[].memory")
		fails(t, checks, "pods of the cluster", "maximum memory usage per Container is 1Gi, but limit is 2Gi change head.memory")
		b.Create(t, b.namespace, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {pods: "0"}}}`)
		b.awaitQuota(t)
		fails(t, findings(t, b.l, smallSpec()), "pods and DNS", "a pod of the keeper is refused: exceeded quota: none")
		b.NothingLeft(t, b.namespace, nil)
	})
	t.Run("Volcano", func(t *testing.T) {
		b.StopVolcano(t)
		defer b.StartVolcano(t)
		s := smallSpec()
		s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: smallNode()}}
		fails(t, findings(t, b.l, s), "Volcano", "its scheduler did nothing with a PodGroup in queue default")
	})
	t.Run("queue", func(t *testing.T) {
		closedQueue(t, b, "doctor")
		s := smallSpec()
		s.Sections, s.Workers = kuberayspec.In(&kuberayspec.Section{Queue: "doctor"}), []spec.WorkerGroup{{Name: "w", NodeResources: smallNode()}}
		fails(t, findings(t, b.l, s), "gang scheduling", "queue doctor is Closed")
	})
	t.Run("permissions", func(t *testing.T) {
		l := b.limited(t, reachingBy(t))
		checks := findings(t, l, nil)
		fails(t, checks, "permissions", "create pods/portforward (or get, create and update services/proxy)")
		fails(t, checks, "KubeRay", "permissions are missing")
		s := smallSpec()
		s.Head.Sections = kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"volumes": []any{noRuns}}})
		checks = findings(t, b.limited(t, reachingBy(t, proxyOnly)), s)
		if c := checks["permissions"]; !c.OK {
			t.Errorf("with the proxy alone: %+v", c)
		}
		if c := checks["named objects"]; !c.OK || c.Detail != "not checked, because you may not get them: PersistentVolumeClaim no-runs" {
			t.Errorf("a claim that the user may not get: %+v", c)
		}
		fails(t, findings(t, b.limited(t, without(minimalRole(t), "create", "rayclusters")), nil), "permissions", "not permitted: create rayclusters")
		s = smallSpec()
		s.Sections = kuberayspec.In(&kuberayspec.Section{Keeper: "none"})
		fails(t, findings(t, b.limited(t, minimalRole(t)), s), "permissions", "not permitted: delete rayclusters")
	})
	t.Run("namespace", func(t *testing.T) {
		l := kuberay.New(kuberay.Config{Kubeconfig: b.kubeconfig, Namespace: "nosuch"})
		fails(t, findings(t, l, nil), "namespace", "nosuch does not exist")
	})
	t.Run("context", func(t *testing.T) {
		l := kuberay.New(kuberay.Config{Kubeconfig: b.kubeconfig, Context: "nosuch"})
		fails(t, findings(t, l, nil), "Kubernetes", `context "nosuch" does not exist`)
	})
	t.Run("operator", func(t *testing.T) {
		b.StopOperator(t)
		defer b.StartOperator(t)
		fails(t, findings(t, b.l, nil), "KubeRay", "the operator did nothing")
	})
}

// noRuns is a volume of a claim that does not exist.
var noRuns = map[string]any{"name": "runs", "persistentVolumeClaim": map[string]any{"claimName": "no-runs"}}

// closedQueue makes a queue and closes it, as `vcctl queue operate` does.
func closedQueue(t *testing.T, b bed, name string) {
	t.Helper()
	queues := b.Dynamic.Resource(kubetest.Queues)
	made := b.Create(t, "", "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: "+name+"}\nspec: {weight: 1}")
	t.Cleanup(func() {
		if err := queues.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete the queue: %v", err)
		}
	})
	state := func(want string) {
		kubetest.Await(t, "queue "+name+" to be "+want, func(ctx context.Context) error {
			q, err := queues.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got, _, _ := unstructured.NestedString(q.Object, "status", "state"); got != want {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
	}
	state("Open")
	b.Create(t, b.namespace, fmt.Sprintf(`
apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {name: close}
action: CloseQueue
target: {apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, name: %s, uid: %s, controller: true}`, name, made.GetUID()))
	state("Closed")
}
