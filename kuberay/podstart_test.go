package kuberay_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/pace"
)

// workersOptions prints what `ray start` of the worker was given.
const workersOptions = `python -c '
import ray
ray.init(log_to_driver=False)
node = [n for n in ray.nodes() if n["NodeManagerAddress"] != ray.util.get_node_ip_address()][0]
@ray.remote(label_selector={"zone": "a"}, num_cpus=0)
def own():
    import os
    return os.environ["OWN"]
print("worker", int(node["Resources"]["object_store_memory"]) >> 20, node["Resources"]["x"], node["Labels"]["site.org/rack"], ray.get(own.remote()))
'
`

// TestPodsStart looks at what pod/node.sh and pod/wait.sh make of a pod: our `ray start` is its first process and collects orphans, what
// names wait.sh is not passed on, and KubeRay's init container looked at the head once.
func TestPodsStart(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := job("quick", `tr '\0' ' ' < /proc/1/cmdline; echo; echo "BASH_ENV ${BASH_ENV-is unset}"; bash -c "sleep 0.2 &"
sleep 1; echo "zombies $(ps -eo stat | grep -c "^Z")"; `+workersOptions+waitingDriver)
	s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: smallNode()}}
	w := &s.Workers[0].NodeResources
	w.Labels, w.Env, w.Resources = map[string]string{"zone": "a", "site.org/rack": "7"}, map[string]string{"OWN": "it's $(mine)"}, map[string]float64{"x": 2}
	w.ObjectStoreMemory, w.ObjectSpillingDirectory = resource.MustParse("96Mi"), "/tmp/spill it's"
	r := b.run(t, b.l, s)
	r.printed(t, "begun\n")
	pods, err := b.Core.CoreV1().Pods(b.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "ray.io/cluster=quick,ray.io/node-type=worker"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("workers: %v, %v", pods, err)
	}
	waited, err := b.Core.CoreV1().Pods(b.namespace).GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{Container: "wait-gcs-ready"}).DoRaw(t.Context())
	if err != nil || string(waited) != "GCS is ready.\n" {
		t.Errorf("wait-gcs-ready: %q, %v", waited, err)
	}
	b.release(t, r.id)
	<-r.done
	for _, want := range []string{"/rayctl/keeper.pyz ray start --head", "BASH_ENV is unset\n", "zombies 0\n", "worker 96 2.0 7 it's $(mine)\n"} {
		if !strings.Contains(r.out.String(), want) {
			t.Errorf("%q is not in %q", want, r.out.String())
		}
	}
}
