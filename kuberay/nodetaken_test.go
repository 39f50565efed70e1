package kuberay_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	machine "github.com/rayctl/rayctl/test/kubetest/bed"
	"github.com/rayctl/rayctl/test/pace"
)

// takenDriver prints what it sees of a node that is going to be taken away, on which an actor works on meanwhile.
const takenDriver = `exec python -c '
import os, time, ray
ray.init(log_to_driver=False, logging_level=40)
` + untilDrained + `left = draining()[there] / 1000 - time.time()
print("worker warned", 60 < left < 120, "head", here in draining(), ray.get(worker.finish.remote()), flush=True)
while not os.path.exists("/tmp/go"):
    time.sleep(0.1)
'`

// TestNodeTaken: with an account that may look at nodes the keeper has Ray drain the nodes whose node of Kubernetes is going to be taken away, and notes who takes
// it. A node that is only cordoned, or that the cluster autoscaler only considers, is left alone. Nobody takes nodes away here: the test sets the taints as
// AWS' handler, Karpenter and the cluster autoscaler do, but with the effect PreferNoSchedule, so that other tests' pods still get the node; the keepers of other tests may not look at nodes.
func TestNodeTaken(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := job("taken", takenDriver)
	s.Sections = kuberayspec.In(&kuberayspec.Section{KeeperServiceAccountName: b.nodeWatcher(t)})
	node := smallNode()
	node.Resources = map[string]float64{"w": 1}
	s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: node}}
	r := b.run(t, b.l, s)
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

// nodeWatcher is a service account with the permissions of docs/kuberay-reference.md.
func (b bed) nodeWatcher(t *testing.T) string {
	t.Helper()
	name, ctx := b.account(t, "node-watcher", permit("pods", "list", "watch")), context.Background()
	meta := metav1.ObjectMeta{Name: name + "-" + b.namespace}
	rbac := b.Core.RbacV1()
	t.Cleanup(func() {
		must(t, rbac.ClusterRoleBindings().Delete(ctx, meta.Name, metav1.DeleteOptions{}))
		must(t, rbac.ClusterRoles().Delete(ctx, meta.Name, metav1.DeleteOptions{}))
	})
	_, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{permit("nodes", "list", "watch")}}, metav1.CreateOptions{})
	must(t, err)
	_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: b.subjects(name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
	}, metav1.CreateOptions{})
	must(t, err)
	return name
}

// account is a service account of the namespace that may do this there.
func (b bed) account(t *testing.T, name string, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	meta, ctx, rbac := metav1.ObjectMeta{Name: name}, t.Context(), b.Core.RbacV1()
	_, err := b.Core.CoreV1().ServiceAccounts(b.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	must(t, err)
	_, err = rbac.Roles(b.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	must(t, err)
	_, err = rbac.RoleBindings(b.namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: b.subjects(name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}, metav1.CreateOptions{})
	must(t, err)
	return name
}

func (b bed) subjects(account string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: b.namespace}}
}

// must fails the test with an error; during its cleanup, too.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// preferred is the effect of this test's taints.
const preferred = corev1.TaintEffectPreferNoSchedule

// taint gives the node these taints, and takes those away that it has given before.
func (b bed) taint(t *testing.T, keys ...string) {
	t.Helper()
	must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
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
