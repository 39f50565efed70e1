package kuberay_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/kubetest"
	machine "github.com/rayctl/rayctl/test/kubetest/bed"
	"github.com/rayctl/rayctl/test/pace"
)

// TestNodeLost: heads, keepers and records vanish at once. When there is room again no driver runs twice.
func TestNodeLost(t *testing.T) {
	o := options()
	o.Simulated = machine.Simulated{Nodes: 1, CPUs: 1} // Kubernetes evicts nothing while all of its nodes are lost
	b := bedWith(t, o)
	conformance.NodeLost(t, b.conformance(), func(t *testing.T, ids []launcher.ID) (back func()) {
		for _, id := range ids[1:] { // the first has no driver yet
			b.awaitNote(t, id)
		}
		b.LoseNode(t)
		for _, id := range ids {
			b.awaitEviction(t, id)
		}
		b.RestoreNode(t)
		return nil
	})
}

func (b bed) awaitEviction(t *testing.T, id launcher.ID) {
	t.Helper()
	statuses, err := b.l.Watch(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for st := range statuses {
		if st.Reason.Code == "DeletionByTaintManager" {
			return
		}
	}
	t.Fatalf("%s was never evicted", id)
}

// TestNodeComesLate: without a gang scheduler the head is there when the worker's node is still being made. That ends nothing, however short lifetime.start is:
// it begins with the node, and is then, a second, too short for Ray.
func TestNodeComesLate(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	const late, start = "rayctl.test/late", time.Second
	s := named("late", "echo never")
	s.Lifetime.Start = units.Limit(start)
	s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: smallNode()}}
	s.Workers[0].Sections = oneOf(late)
	s.Sections = kuberayspec.In(&kuberayspec.Section{Scheduler: "none"})
	r := b.begin(t, b.l, s)
	answered := func(st launcher.Status) bool { return st.Phase == runstate.Starting && st.Head.Session != "" }
	r.until(t, "the head's answer", answered)
	since := time.Now()
	autoscaler := b.recorder(t, "cluster-autoscaler")
	autoscaler.Event(b.worker(t, ""), corev1.EventTypeNormal, "TriggeredScaleUp", "pod triggered scale-up: [{late 0->1 (max: 1)}]")
	r.until(t, "the reason", func(st launcher.Status) bool { return answered(st) && st.Reason.Code == "NodesBeingMade" })
	kubetest.Await(t, "lifetime.start to pass", func(context.Context) error {
		if left := 2*start - time.Since(since); left > 0 {
			return fmt.Errorf("%s are left", left)
		}
		return nil
	})
	autoscaler.Event(b.worker(t, ""), corev1.EventTypeNormal, "TriggeredScaleUp", "pod triggered scale-up: [{late 0->2 (max: 2)}]")
	r.until(t, "the newer reason", func(st launcher.Status) bool { return answered(st) && strings.Contains(st.Reason.Message, "0->2") })
	b.offer(t, late, "1")
	if e := r.wantEnd(t, "start-failed", runstate.CodeStartFailed, ""); !strings.Contains(e.Message, "lifetime.start") {
		t.Errorf("it ended by %q", e.Message)
	}
	if !slices.ContainsFunc(r.outcome.Receipt.Timeline, func(e runstate.Event) bool { return e.To == "Granted" }) {
		t.Error("the worker's pod has not told the keeper of its node")
	}
}

// TestNodeTaken: with an account that may look at nodes the keeper has Ray drain the nodes whose node of Kubernetes is going to be taken away, and notes who takes
// it. A node that is only cordoned, or that the cluster autoscaler only considers, is left alone. Nobody takes nodes away here: the test sets the taints as
// AWS' handler, Karpenter and the cluster autoscaler do, but with the effect PreferNoSchedule, so that other tests' pods still get the node; the keepers of other tests may not look at nodes.
func TestNodeTaken(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := named("taken", takenDriver)
	s.Sections = kuberayspec.In(&kuberayspec.Section{KeeperServiceAccountName: b.nodeWatcher(t)})
	node := smallNode()
	node.Resources = map[string]float64{"w": 1}
	s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: node}}
	r := b.begin(t, b.l, s)
	r.printed(t, "begun\n")
	b.taint(t, "DeletionCandidateOfClusterAutoscaler", "node.kubernetes.io/unschedulable")
	b.taint(t, "ToBeDeletedByClusterAutoscaler.of-nobody", "aws-node-termination-handler/spot-itn")
	r.until(t, "a note on the worker", func(st launcher.Status) bool {
		return strings.Contains(nodeNotes(st.Timeline), "Draining: its node node1: AWS reclaims its spot instance; Ray drains it")
	})
	if notes := nodeNotes(r.status.Timeline); strings.Contains(notes, "autoscaler") {
		t.Errorf("notes on nodes: %s", notes)
	}
	r.printed(t, "finished\n")
	for key, why := range map[string]string{"karpenter.sh/disrupted": "Karpenter is going to remove it", "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler is going to remove it"} {
		b.taint(t, key)
		r.until(t, "a note on the head of "+key, func(st launcher.Status) bool {
			return strings.Contains(nodeNotes(st.Timeline), "Warned: its node node1: "+why)
		})
	}
	b.taint(t)
	b.release(t, r.id)
	r.wantEnd(t, "succeeded", 0, "begun\nworker warned True head False finished\n")
	if notes := nodeNotes(r.outcome.Receipt.Timeline); !strings.Contains(notes, "Warned: its node node1: AWS reclaims its spot instance") || strings.Count(notes, "Draining: ") != 1 {
		t.Errorf("notes on nodes: %s", notes)
	}
}

// takenDriver prints what it sees of a node that is going to be taken away, on which an actor works on meanwhile.
const takenDriver = `exec python -c '
import os, time, ray
ray.init(log_to_driver=False, logging_level=40)
` + untilDrained + `left = draining()[there] / 1000 - time.time()
print("worker warned", 60 < left < 120, "head", here in draining(), ray.get(worker.finish.remote()), flush=True)
while not os.path.exists("/tmp/go"):
    time.sleep(0.1)
'`

// nodeWatcher is a service account with the permissions of docs/kuberay-reference.md.
func (b bed) nodeWatcher(t *testing.T) string {
	t.Helper()
	name, ctx := b.account(t, "node-watcher", permit("pods", "list", "watch")), context.Background()
	meta := metav1.ObjectMeta{Name: name + "-" + b.namespace}
	rbac := b.Core.RbacV1()
	t.Cleanup(func() {
		noError(t, rbac.ClusterRoleBindings().Delete(ctx, meta.Name, metav1.DeleteOptions{}))
		noError(t, rbac.ClusterRoles().Delete(ctx, meta.Name, metav1.DeleteOptions{}))
	})
	_, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{permit("nodes", "list", "watch")}}, metav1.CreateOptions{})
	noError(t, err)
	_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: b.subjects(name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
	}, metav1.CreateOptions{})
	noError(t, err)
	return name
}

// taint gives the node these taints, and takes those away that it has given before.
func (b bed) taint(t *testing.T, keys ...string) {
	t.Helper()
	noError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := b.Core.CoreV1().Nodes().Get(context.Background(), machine.NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Effect == preferred })
		for _, key := range keys {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: preferred})
		}
		_, err = b.Core.CoreV1().Nodes().Update(context.Background(), node, metav1.UpdateOptions{})
		return err
	}))
}

// preferred is the effect of this test's taints.
const preferred = corev1.TaintEffectPreferNoSchedule
