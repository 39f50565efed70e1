package kuberay_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/test/kubetest"
)

// bed reads from Kubernetes itself, not from the launcher, what belongs to a cluster.
type bed struct {
	*kubetest.Cluster
	namespace, kubeconfig string
	l                     *kuberay.Launcher
}

// options are those of nearly all tests: to change them costs seconds. The GPUs are the gang proof's; nothing is behind them.
func options() kubetest.Options { return kubetest.Options{GPUs: 8} }

// newBed is a namespace of its own.
func newBed(t *testing.T) bed { return bedWith(t, options()) }

func bedWith(t *testing.T, o kubetest.Options) bed {
	t.Helper()
	return bed{Cluster: kubetest.Start(t, o)}.another(t)
}

// another is one more namespace beside the bed's, for the same test.
func (b bed) another(t *testing.T) bed {
	t.Helper()
	b.namespace = b.Namespace(t)
	b.kubeconfig = b.KubeconfigFor(t, b.namespace)
	b.l = kuberay.New(kuberay.Config{Kubeconfig: b.kubeconfig})
	return b
}

func (b bed) list(t *testing.T, r schema.GroupVersionResource, id launcher.ID) map[string][]byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	objects, err := b.Dynamic.Resource(r).Namespace(b.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, o := range objects.Items {
		if o.GetLabels()["rayctl.io/name"] != string(id) && o.GetLabels()["ray.io/cluster"] != string(id) && !strings.HasPrefix(o.GetName(), string(id)) {
			continue
		}
		text, err := kyaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		out[r.Resource+"/"+o.GetName()] = text
	}
	return out
}

func (b bed) allocated(t *testing.T, id launcher.ID) (left []string) {
	for _, r := range []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("services"),
		batchv1.SchemeGroupVersion.WithResource("jobs"), kubetest.RayClusters, {Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"},
	} {
		for name := range b.list(t, r, id) {
			if !strings.HasPrefix(name, "jobs/"+string(id)+"-record") && !b.finished(t, name) {
				left = append(left, name)
			}
		}
	}
	return left
}

// left is what is allocated to a cluster that has ended. KubeRay, when its view of the RayCluster is behind that of the pods, makes the head's
// Service and pod once more while the RayCluster goes; Kubernetes collects them then, so they are waited for.
func (b bed) left(t *testing.T, id launcher.ID) (left []string) {
	for range 100 {
		left = b.allocated(t, id)
		if len(left) == 0 || slices.ContainsFunc(left, func(name string) bool { return !b.madeAgain(t, id, name) }) {
			break
		}
		time.Sleep(300 * time.Millisecond)
	}
	return left
}

// madeAgain reports whether KubeRay made a Service or a pod (another one) after the end of its cluster.
func (b bed) madeAgain(t *testing.T, id launcher.ID, name string) bool {
	if strings.HasPrefix(name, "services/") {
		return true
	}
	pod, isPod := strings.CutPrefix(name, "pods/")
	if !isPod {
		return false
	}
	p, err := b.Core.CoreV1().Pods(b.namespace).Get(context.Background(), pod, metav1.GetOptions{})
	if err != nil {
		return apierrors.IsNotFound(err) // just now
	}
	r, err := b.l.Result(context.Background(), id)
	return err == nil && p.Labels["ray.io/cluster"] != "" && !p.CreationTimestamp.Time.Before(r.Since.Truncate(time.Second))
}

// finished reports whether a pod has ended; of a record what is its own, see TestSidecars. The record's pod stays as long as the record.
func (b bed) finished(t *testing.T, name string) bool {
	pod, isPod := strings.CutPrefix(name, "pods/")
	if !isPod {
		return false
	}
	p, err := b.Core.CoreV1().Pods(b.namespace).Get(context.Background(), pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	own := slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == "driver" && s.State.Terminated != nil })
	return p.Labels["rayctl.io/role"] == "record" && (p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || own)
}

func (b bed) killKeeper(t *testing.T, id launcher.ID) {
	t.Helper()
	b.keeperProcess(t, id)
	b.DeletePods(t, b.namespace, "rayctl.io/role=keeper,rayctl.io/name="+string(id), 0)
}

func (b bed) killKeeperProcess(t *testing.T, id launcher.ID) {
	t.Helper()
	if _, pid := b.keeperProcess(t, id); syscall.Kill(pid, syscall.SIGKILL) != nil {
		t.Errorf("the keeper %d cannot be killed", pid)
	}
}

func (b bed) hold(*testing.T) (string, func(*testing.T, launcher.ID)) {
	return "until [ -e /tmp/go ]; do sleep 0.2; done", func(t *testing.T, id launcher.ID) {
		t.Helper()
		kubetest.Await(t, "the head's container, to release it", func(ctx context.Context) error {
			code, err := b.l.Exec(ctx, id, launcher.ExecRequest{Command: []string{"touch", "/tmp/go"}, Stdout: io.Discard, Stderr: io.Discard})
			if err == nil && code != 0 {
				err = fmt.Errorf("code %d", code)
			}
			return err
		})
	}
}

// freezeDashboard stops the process that serves HTTP; the head's other processes go on. Pods are processes of this machine.
func (b bed) freezeDashboard(t *testing.T, id launcher.ID) func() {
	t.Helper()
	pods, err := b.Core.CoreV1().Pods(b.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "ray.io/node-type=head,ray.io/cluster=" + string(id)})
	if err != nil || len(pods.Items) != 1 {
		t.Errorf("the head's pod: %d, %v", len(pods.Items), err)
		return func() {}
	}
	pid := processOf(string(pods.Items[0].UID), "dashboard/dashboard.py\x00")
	signal := func(number syscall.Signal) {
		if pid == 0 {
			t.Error("the head's pod has no dashboard")
		} else if err := syscall.Kill(pid, number); err != nil {
			t.Errorf("signal %d to %d: %v", number, pid, err)
		}
	}
	signal(syscall.SIGSTOP)
	return func() { signal(syscall.SIGCONT) }
}

// nameServiceAway concerns all clusters of the tests: none of them ends by it.
func (b bed) nameServiceAway(t *testing.T) func() {
	t.Helper()
	b.StopDNS(t)
	return func() { b.StartDNS(t) }
}

func (b bed) killHead(t *testing.T, id launcher.ID) {
	t.Helper()
	var out bytes.Buffer
	if code, err := b.l.Exec(t.Context(), id, launcher.ExecRequest{Command: []string{"pkill", "-9", "gcs_server"}, Stdout: &out, Stderr: &out}); err != nil || code != 0 {
		t.Errorf("kill the head's GCS: code %d, %v, %s", code, err, out.String())
	}
}

func (b bed) surfaces(t *testing.T, id launcher.ID) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, r := range []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("services"), corev1.SchemeGroupVersion.WithResource("events"),
		corev1.SchemeGroupVersion.WithResource("configmaps"), batchv1.SchemeGroupVersion.WithResource("jobs"), kubetest.RayClusters,
		{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"},
	} {
		for name, text := range b.list(t, r, id) {
			out[name] = text
		}
	}
	for name := range out {
		if pod, ok := strings.CutPrefix(name, "pods/"); ok {
			out["log of "+pod] = b.log(pod)
		}
	}
	return out
}

func (b bed) log(pod string) []byte {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := b.Core.CoreV1().Pods(b.namespace).GetLogs(pod, &corev1.PodLogOptions{TailLines: ptr.To(int64(200))}).Stream(ctx)
	if err != nil {
		return []byte(err.Error())
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		return []byte(err.Error())
	}
	return text
}

func (b bed) story(t *testing.T, id launcher.ID) string {
	var s strings.Builder
	for name, text := range b.surfaces(t, id) {
		if strings.HasPrefix(name, "log of ") || strings.HasPrefix(name, "jobs/") || strings.HasPrefix(name, "events/") {
			fmt.Fprintf(&s, "--- %s\n%s\n", name, text)
		}
	}
	return s.String()
}
