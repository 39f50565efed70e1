package admit_test

import (
	"strings"
	"testing"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/kuberay/admit"
)

// kueueObject reads an object of Kueue's, named q in namespace rl where it has one.
func kueueObject(t *testing.T, kind, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := kyaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetAPIVersion("kueue.x-k8s.io/v1beta2")
	u.SetKind(kind)
	u.SetName("q")
	if kind != "ClusterQueue" {
		u.SetNamespace("rl")
	}
	return u
}

func kueueClient(objects ...runtime.Object) *fake.FakeDynamicClient {
	return fake.NewSimpleDynamicClient(runtime.NewScheme(), objects...)
}

var kueue = (admit.Kueue{}).At("v1beta2").(admit.Queuer)

// TestHeld: what Workloads of the real Kueue 0.17 say, in a sentence, and what that means.
func TestHeld(t *testing.T) {
	flavors := kueueObject(t, "LocalQueue", "{spec: {clusterQueue: q}, status: {flavorsReservation: [{name: a, resources: [{name: cpu}]}, {name: b, resources: [{name: cpu}, {name: gpu}]}]}}")
	const set = "couldn't assign flavors to pod set w: "
	over := func(r, flavor, before, now, most string) string {
		return "insufficient quota for " + r + " in flavor " + flavor + ", previously considered podsets requests (" + before + ") + current podset request (" + now + ") > maximum capacity (" + most + ")"
	}
	pending := func(message string) string {
		return `{spec: {queueName: q}, status: {conditions: [{type: QuotaReserved, status: "False", message: "` + message + `"}]}}`
	}
	for name, c := range map[string]struct {
		workload string
		want     admit.Held
	}{
		"new":     {"{}", admit.Held{}},
		"missing": {pending("LocalQueue team doesn't exist"), admit.Held{Why: "LocalQueue team doesn't exist"}},
		"preempted": {`{status: {conditions: [{type: Evicted, status: "True", message: Preempted to accommodate b}, {type: QuotaReserved, status: "False", message: no room yet}]}}`,
			admit.Held{Why: "Preempted to accommodate b; no room yet", TakenBack: true}},
		"stopped queue": {`{status: {conditions: [{type: Evicted, status: "True", message: ClusterQueue q is stopped}, {type: QuotaReserved, status: "False", message: ClusterQueue q is stopped}]}}`,
			admit.Held{Why: "ClusterQueue q is stopped", TakenBack: true}},
		"deactivated": {`{spec: {active: false}, status: {conditions: [{type: Evicted, status: "True", message: The workload is deactivated}, {type: QuotaReserved, status: "False", message: The workload is deactivated}]}}`,
			admit.Held{Why: "The workload is deactivated", TakenBack: true, Stopped: true}},
		"check": {`{status: {conditions: [{type: QuotaReserved, status: "True", message: reserved}], admissionChecks: [{name: ok, state: Ready}, {name: budget, state: Pending, message: asks}]}}`,
			admit.Held{Why: "admission check budget is Pending: asks"}},
		"in use":          {pending(set + "insufficient unused quota for cpu in flavor a, 1 more needed"), admit.Held{Why: set + "insufficient unused quota for cpu in flavor a, 1 more needed"}},
		"one flavor full": {pending(set + over("cpu", "a", "0", "9", "8")), admit.Held{Why: set + over("cpu", "a", "0", "9", "8")}},
		"no flavor": {pending(set + over("cpu", "a", "0", "9", "8") + ", " + over("cpu", "b", "0", "9", "8")),
			admit.Held{Why: set + over("cpu", "a", "0", "9", "8") + ", " + over("cpu", "b", "0", "9", "8"), Never: true}},
		"flavors of two sets": {pending("couldn't assign flavors to pod set v: " + over("cpu", "a", "0", "9", "8") + "; " + set + over("cpu", "b", "0", "9", "8")),
			admit.Held{Why: "couldn't assign flavors to pod set v: " + over("cpu", "a", "0", "9", "8") + "; " + set + over("cpu", "b", "0", "9", "8")}},
		"beside another set, which may go elsewhere": {pending(set + over("cpu", "a", "5", "5", "8") + ", " + over("cpu", "b", "5", "5", "8")),
			admit.Held{Why: set + over("cpu", "a", "5", "5", "8") + ", " + over("cpu", "b", "5", "5", "8")}},
		"beside another set of the only flavor": {pending(set + over("gpu", "b", "5", "5", "8")), admit.Held{Why: set + over("gpu", "b", "5", "5", "8"), Never: true}},
		"other nodes": {pending(set + "flavor a doesn't match node affinity, untolerated taint {gpu=x:NoSchedule <nil>} in flavor b"),
			admit.Held{Why: set + "flavor a doesn't match node affinity, untolerated taint {gpu=x:NoSchedule <nil>} in flavor b", Never: true}},
		"other nodes, and in use": {pending(set + "flavor a doesn't match node affinity, insufficient unused quota for cpu in flavor b, 1 more needed"),
			admit.Held{Why: set + "flavor a doesn't match node affinity, insufficient unused quota for cpu in flavor b, 1 more needed"}},
		"no quota": {pending(set + "resource rdma/ib unavailable in ClusterQueue"), admit.Held{Why: set + "resource rdma/ib unavailable in ClusterQueue", Never: true}},
	} {
		if got := kueue.Held(t.Context(), kueueClient(flavors), kueueObject(t, "Workload", c.workload)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestJudge: what a LocalQueue and its ClusterQueue show of themselves before a cluster of a head with 1 CPU and two workers with 2 CPUs and 4 GPUs each waits there.
func TestJudge(t *testing.T) {
	const ready = `status: {conditions: [{type: Active, status: "True", reason: Ready}]}`
	local := "{spec: {clusterQueue: q}, " + ready + "}"
	cluster := func(more, flavors string) string {
		return "{spec: {namespaceSelector: {}, " + more + "resourceGroups: [{coveredResources: [cpu, gpu], flavors: [" + flavors + "]}]}, " + ready + "}"
	}
	flavor := func(name, cpu, gpu string) string {
		return "{name: " + name + ", resources: [{name: cpu, nominalQuota: " + cpu + "}, {name: gpu, nominalQuota: " + gpu + "}]}"
	}
	inactive := func(reason, message string) string {
		return `{spec: {clusterQueue: q}, status: {conditions: [{type: Active, status: "False", reason: ` + reason + `, message: "` + message + `"}]}}`
	}
	for name, c := range map[string]struct {
		local, cluster string
		never, closed  string
	}{
		"room":                   {local, cluster("", flavor("a", "5", "8")), "", ""},
		"room in two flavors":    {local, cluster("", flavor("a", "1", "0")+", "+flavor("b", "4", "8")), "", ""},
		"no such LocalQueue":     {"", "", "there is no LocalQueue q in namespace rl", ""},
		"no such ClusterQueue":   {inactive("ClusterQueueDoesNotExist", "Can't submit"), "", "", "ClusterQueue q of LocalQueue q does not exist"},
		"stopped LocalQueue":     {inactive("Stopped", "LocalQueue is stopped"), cluster("", flavor("a", "5", "8")), "", "LocalQueue q is stopped"},
		"Kueue away":             {"{spec: {clusterQueue: q}}", cluster("", flavor("a", "5", "8")), "", "Kueue has not looked at LocalQueue q: its controller does not run"},
		"GPUs":                   {local, cluster("", flavor("a", "5", "4")+", "+flavor("b", "5", "6")), "group w needs 8 gpu, and ClusterQueue q has at most 4 gpu in flavor a, 6 gpu in flavor b", ""},
		"of one flavor":          {local, cluster("", flavor("a", "9", "4")+", "+flavor("b", "3", "8")), "group w needs 4 cpu and 8 gpu of one flavor, and ClusterQueue q has at most 4 gpu in flavor a, 3 cpu in flavor b", ""},
		"in all":                 {local, cluster("", flavor("a", "4", "8")), "the cluster needs 5 cpu, and ClusterQueue q has at most 4 in all", ""},
		"borrowing":              {local, cluster("cohortName: c, ", flavor("a", "1", "1")), "", ""},
		"borrowing of v1beta1":   {local, cluster("cohort: c, ", flavor("a", "1", "1")), "", ""},
		"borrowing with a limit": {local, cluster("cohortName: c, ", "{name: a, resources: [{name: cpu, nominalQuota: 5}, {name: gpu, nominalQuota: 4, borrowingLimit: 3}]}"), "group w needs 8 gpu, and ClusterQueue q has at most 7 gpu in flavor a", ""},
		"no quota of GPUs":       {local, "{spec: {namespaceSelector: {}, resourceGroups: [{coveredResources: [cpu], flavors: [{name: a, resources: [{name: cpu, nominalQuota: 5}]}]}]}, " + ready + "}", "", "ClusterQueue q has no quota of gpu, of which group w needs 8"},
		"stopped ClusterQueue": {inactive("ClusterQueueIsInactive", "Can't submit"), strings.Replace(cluster("", flavor("a", "5", "8")), ready,
			`status: {conditions: [{type: Active, status: "False", reason: Stopped, message: "Can't admit new workloads: is stopped."}]}`, 1), "", "ClusterQueue q is inactive: Can't admit new workloads: is stopped"},
		"other namespaces": {local, strings.Replace(cluster("", flavor("a", "5", "8")), "namespaceSelector: {}", "namespaceSelector: {matchLabels: {team: x}}", 1), "", "ClusterQueue q does not admit namespace rl (namespaceSelector)"},
	} {
		objects := []runtime.Object{&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "rl"}}}}
		if c.local != "" {
			objects = append(objects, kueueObject(t, "LocalQueue", c.local))
		}
		if c.cluster != "" {
			objects = append(objects, kueueObject(t, "ClusterQueue", c.cluster))
		}
		got, err := kueue.Judge(t.Context(), kueueClient(objects...), "rl", "q", judged())
		if err != nil || got.Never != c.never || got.Closed != c.closed {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if got.Hint == "" {
			t.Errorf("%s: no next step", name)
		}
	}
}

// judged asks for a head with 1 CPU and two workers with 2 CPUs and 4 GPUs each, one of them as its limit alone.
func judged() *rayv1.RayCluster {
	pod := func(requests, limits corev1.ResourceList) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}}}
	}
	rc := &rayv1.RayCluster{}
	rc.Spec.HeadGroupSpec.Template = pod(corev1.ResourceList{"cpu": resource.MustParse("1")}, nil)
	rc.Spec.WorkerGroupSpecs = []rayv1.WorkerGroupSpec{{
		GroupName: "w", Replicas: ptr.To[int32](2), Template: pod(corev1.ResourceList{"cpu": resource.MustParse("2")}, corev1.ResourceList{"gpu": resource.MustParse("4")}),
	}}
	return rc
}

// TestJudgeUnread: who may read no ClusterQueue is told that, and what the LocalQueue says; who may read neither is told that.
func TestJudgeUnread(t *testing.T) {
	c := kueueClient(kueueObject(t, "LocalQueue", `{spec: {clusterQueue: q}, status: {conditions: [{type: Active, status: "False", reason: ClusterQueueIsInactive}]}}`))
	forbid := func(resource string) {
		c.PrependReactor("get", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "q", nil)
		})
	}
	for _, step := range []struct{ forbidden, closed string }{{"clusterqueues", "ClusterQueue q of LocalQueue q is inactive"}, {"localqueues", ""}} {
		forbid(step.forbidden)
		got, err := kueue.Judge(t.Context(), c, "rl", "q", judged())
		if err != nil || got.Never != "" || got.Closed != step.closed || len(got.Unread) != 1 || got.Unread[0] != step.forbidden+".kueue.x-k8s.io" {
			t.Errorf("without %s: %+v, %v", step.forbidden, got, err)
		}
	}
}
