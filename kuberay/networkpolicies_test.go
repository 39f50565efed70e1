package kuberay_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestNetworkPolicies: in a namespace whose network denies by default, doctor names what is missing, and what `rayctl render --networkpolicy` prints is enough for
// a whole run, and for a client by port-forward; pods of others still reach nothing.
func TestNetworkPolicies(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	b.EnforceNetworkPolicies(t, b.namespace)
	b.Create(t, b.namespace, `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: default-deny}, spec: {podSelector: {}, policyTypes: [Ingress, Egress]}}`)
	s := named("denied", both+waitingDriver)
	s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: smallNode()}}
	s.Sections = kuberayspec.In(&kuberayspec.Section{KeeperServiceAccountName: "default"})
	checks := findings(t, b.l, s)
	fails(t, checks, "network policies", "egress of the head is denied by policy default-deny, and no rule allows it to group w, TCP port 10002 (one of those of Ray's workers)")
	fails(t, checks, "network policies", "`rayctl render --networkpolicy` prints")
	fails(t, checks, "connections", "a pod does not reach one on the same node at ports 10002 (timed out)")

	u := newUser(t, b.kubeconfig)
	file := filepath.Join(t.TempDir(), "rayctl.yaml")
	if err := os.WriteFile(file, []byte("launcher: kuberay\nimage: rayproject/ray:2.60.0\nworkers: [{name: w, replicas: 1}]\nkuberay: {keeperServiceAccountName: default}\njob: {entrypoint: 'true'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	printed := u.succeeds(t, "kind: NetworkPolicy", "render", "--networkpolicy", "-f", file)
	b.createAll(t, printed.out)
	checks = findings(t, b.l, s)
	for _, name := range []string{"network policies", "pods and DNS", "connections"} {
		if c := checks[name]; !c.OK {
			t.Errorf("with the policies: %+v", c)
		}
	}
	r := b.begin(t, b.l, s)
	r.printed(t, "two nodes\nbegun\n")
	r.until(t, "told by the API server that its keeper may not look at nodes", func(st launcher.Status) bool {
		return strings.Contains(nodeNotes(st.Timeline), "the nodes of Kubernetes cannot be watched")
	})
	if out := b.stranger(t, r); out != "denied" {
		t.Errorf("a pod of somebody else reaches the dashboard: %q", out)
	}
	b.release(t, r.id)
	r.wantEnd(t, "succeeded", 0, "two nodes\nbegun\ndone\n")
}

// both needs the head, where the driver runs, and the worker, since heads take no tasks.
const both = `python -c '
import ray
ray.init(logging_level="ERROR", log_to_driver=False)
@ray.remote(num_cpus=0.1)
def where(): return ray.get_runtime_context().get_node_id()
print("two nodes" if ray.get(where.remote()) != ray.get_runtime_context().get_node_id() else "one node", flush=True)
'; `

// stranger is a pod that rayctl has not made. It reports whether it reaches the head's dashboard.
func (b bed) stranger(t *testing.T, r *watchedRun) string {
	t.Helper()
	heads, err := b.Core.CoreV1().Pods(b.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "ray.io/node-type=head,ray.io/cluster=" + string(r.id)})
	if err != nil || len(heads.Items) != 1 {
		t.Fatalf("the head: %d, %v", len(heads.Items), err)
	}
	b.Create(t, b.namespace, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: stranger}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - name: c
    image: %s
    command: [python3, -c, "import socket, time; time.sleep(3)\ntry: socket.create_connection(('%s', 8265), 5); print('reached', end='')\nexcept OSError: print('denied', end='')"]`,
		heads.Items[0].Spec.Containers[0].Image, heads.Items[0].Status.PodIP))
	kubetest.Await(t, "the stranger's end", func(ctx context.Context) error {
		p, err := b.Core.CoreV1().Pods(b.namespace).Get(ctx, "stranger", metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodSucceeded {
			err = fmt.Errorf("it is %s", p.Status.Phase)
		}
		return err
	})
	return string(b.log("stranger"))
}
