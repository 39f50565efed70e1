//go:build linux

package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/kubetest/bed"
)

// kubeWorld is a namespace of a Kubernetes with KubeRay and Volcano.
type kubeWorld struct {
	*kubetest.Cluster
	t                                   *testing.T
	home, rayctl, kubeconfig, namespace string
}

var kubeOptions = kubetest.Options{GPUs: 8}

func newKubeWorld(t *testing.T, rayctl string) world {
	w := &kubeWorld{Cluster: kubetest.Start(t, kubeOptions), t: t, home: t.TempDir(), rayctl: rayctl}
	w.namespace = w.Namespace(t)
	w.kubeconfig = w.KubeconfigFor(t, w.namespace)
	w.Create(t, "", `{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: `+w.queue()+`}, spec: {weight: 1, capability: {cpu: "100"}}}`)
	t.Cleanup(func() {
		if err := w.Dynamic.Resource(kubetest.Queues).Delete(context.Background(), w.queue(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *kubeWorld) dir() string { return w.home }

func (w *kubeWorld) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, w.rayctl, args...)
	c.Env = append(plainEnvironment(), "HOME="+w.home, "KUBECONFIG="+w.kubeconfig, "XDG_STATE_HOME="+w.home+"/state", "XDG_CACHE_HOME="+w.home+"/cache", "XDG_CONFIG_HOME="+w.home+"/config")
	return c
}

func (w *kubeWorld) file(d drawn, books string) string {
	node := "{cpus: 0.2, memory: 2Gi}"
	text := "launcher: kuberay\nray: {version: 2.60.0}\nhead: " + node + "\nmounts: [{mountPath: " + books + ", source: {kuberay: {hostPath: {path: " + books + "}}}}]\n"
	switch {
	case d.kind == early:
		text = strings.Replace(text, "head: {", "kuberay: {queue: "+w.queue()+"}\nhead: {early: true, ", 1) + earlyGroup(d, "cpus: 0.2, memory: 2Gi")
	case d.bursts > 0:
		text += elasticGroup(d, "cpus: 0.2, memory: 2Gi")
	case d.workers > 0:
		text += "workers: [{name: w, cpus: 0.2, memory: 2Gi}]\n"
	}
	return text
}

// selectors select a run's objects: rayctl's and KubeRay's.
func selectors(run string) []string {
	return []string{"rayctl.io/name=" + run, "ray.io/cluster=" + run}
}

func (w *kubeWorld) pods(run string) (pods []corev1.Pod) {
	for _, selector := range selectors(run) {
		list, err := w.Core.CoreV1().Pods(w.namespace).List(context.Background(), metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			continue // the API server is stopped
		}
		for _, p := range list.Items {
			if !slices.ContainsFunc(pods, func(o corev1.Pod) bool { return o.UID == p.UID }) {
				pods = append(pods, p)
			}
		}
	}
	return pods
}

// processes finds processes of pods by the pod's uid in the names of their cgroups.
func (w *kubeWorld) processes(run string) (out []process) {
	pods := w.pods(run)
	for _, p := range table() {
		for _, pod := range pods {
			uid := string(pod.UID)
			if strings.Contains(p.cgroup, uid) || strings.Contains(p.cgroup, strings.ReplaceAll(uid, "-", "_")) {
				out = append(out, p)
			}
		}
	}
	return out
}

func (w *kubeWorld) kinds() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("services"),
		batchv1.SchemeGroupVersion.WithResource("jobs"), kubetest.RayClusters, {Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"},
	}
}

func (w *kubeWorld) objects(run string, kinds []schema.GroupVersionResource) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, r := range kinds {
		list, err := w.Dynamic.Resource(r).Namespace(w.namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			if o.GetLabels()["rayctl.io/name"] != run && o.GetLabels()["ray.io/cluster"] != run && o.GetName() != run && !strings.HasPrefix(o.GetName(), run+"-") {
				continue
			}
			if out[r.Resource+"/"+o.GetName()], err = yaml.Marshal(o.Object); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// allocated leaves out the record, whose pod has ended and whose Job stays.
func (w *kubeWorld) allocated(run string) (left []string) {
	objects, err := w.objects(run, w.kinds())
	if err != nil {
		return []string{err.Error()}
	}
	over := map[string]bool{}
	for _, p := range w.pods(run) {
		over["pods/"+p.Name] = p.Labels["rayctl.io/role"] == "record" && (p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed)
	}
	for name := range objects {
		if !strings.HasPrefix(name, "jobs/"+run+"-record") && !over[name] {
			left = append(left, name)
		}
	}
	return left
}

func (w *kubeWorld) surfaces(run string) map[string][]byte {
	kinds := slices.DeleteFunc(w.kinds(), func(r schema.GroupVersionResource) bool { return r.Resource == "secrets" })
	kinds = append(kinds, corev1.SchemeGroupVersion.WithResource("events"), corev1.SchemeGroupVersion.WithResource("configmaps"))
	out, err := w.objects(run, kinds)
	if err != nil {
		out = map[string][]byte{}
	}
	for _, p := range w.pods(run) {
		out["log of "+p.Name] = w.log(p.Name)
	}
	return merge(out, argv())
}

func (w *kubeWorld) log(pod string) []byte {
	r, err := w.Core.CoreV1().Pods(w.namespace).GetLogs(pod, &corev1.PodLogOptions{TailLines: ptr.To(int64(200))}).Stream(context.Background())
	if err != nil {
		return nil
	}
	defer r.Close()
	text, _ := io.ReadAll(io.LimitReader(r, 1<<20))
	return text
}

func (w *kubeWorld) story(run string) string {
	var b strings.Builder
	for name, text := range w.surfaces(run) {
		if strings.HasPrefix(name, "log of ") || strings.HasPrefix(name, "events/") {
			fmt.Fprintf(&b, "--- %s\n%s\n", name, lastLines(string(text), 40))
		}
	}
	return b.String()
}

// keeperInPod is the first process of the keeper's container.
const keeperInPod = "keeper.pyz pod "

func (w *kubeWorld) faults() map[string]fault {
	return merge(clientFaults(), rayFaults(true), map[string]fault{
		"keeper's process killed": {strike: kill(keeperInPod)},
		"keeper's pod deleted":    {strike: w.deletePods("rayctl.io/role=keeper,rayctl.io/name=", 0)},
		"keeper's pod evicted":    {strike: w.deletePods("rayctl.io/role=keeper,rayctl.io/name=", -1)},
		"keeper frozen":           {strike: freeze(8*time.Second, keeperInPod, "keeper.pyz pod-keeper ")},
		"head's pod deleted":      {strike: w.deletePods("ray.io/node-type=head,ray.io/cluster=", 0), causes: []string{"lost"}, node: true, lossy: true},
		"worker's pod deleted":    {strike: w.deletePods("ray.io/node-type=worker,ray.io/cluster=", 0)},
		"RayCluster deleted":      {strike: w.deleteCluster, causes: []string{"lost", "interrupted", "down"}, lossy: true},
		"operator killed":         {strike: w.away(bed.Operator, 8*time.Second)},
		"API server killed":       {strike: w.away(bed.APIServer, 8*time.Second)},
		"name service away":       {strike: w.away(bed.DNS, 45*time.Second)},
		"Volcano killed":          {strike: w.away(bed.VolcanoScheduler, 8*time.Second)},
	})
}

func (w *kubeWorld) deletePods(selector string, grace int64) func(*runningCase) bool {
	return func(r *runningCase) bool {
		options := metav1.DeleteOptions{}
		if grace >= 0 {
			options.GracePeriodSeconds = &grace
		}
		list, err := w.Core.CoreV1().Pods(w.namespace).List(context.Background(), metav1.ListOptions{LabelSelector: selector + r.d.run()})
		if err != nil {
			return false
		}
		struck := false
		for _, p := range list.Items {
			struck = w.Core.CoreV1().Pods(w.namespace).Delete(context.Background(), p.Name, options) == nil || struck
		}
		return struck
	}
}

func (w *kubeWorld) deleteCluster(r *runningCase) bool {
	return w.Dynamic.Resource(kubetest.RayClusters).Namespace(w.namespace).Delete(context.Background(), r.d.run(), metav1.DeleteOptions{}) == nil
}

// away kills a part of the testbed and starts it again.
func (w *kubeWorld) away(part bed.Part, length time.Duration) func(*runningCase) bool {
	return func(*runningCase) bool {
		w.Stop(w.t, part)
		time.Sleep(length)
		w.Start(w.t, part)
		return true
	}
}

// settle starts parts that ended by themselves: without the API server for some seconds a controller loses its lease, and exits (client-go,
// leaderelection). Elsewhere its kubelet starts it again.
func (w *kubeWorld) settle(*testing.T) {
	kubetest.Start(w.t, kubeOptions)
	w.hold(false)
}

func (w *kubeWorld) end(*testing.T) { _ = os.RemoveAll(w.home + "/state") }
