package kubetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/kubetest/bed"
)

const podGroup = `{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: %s}, spec: {minMember: %d, queue: default}}`

// TestRayClusterBehindPodGroup: Volcano admits a real Ray cluster of two pods as a whole, through a PodGroup made by the client.
func TestRayClusterBehindPodGroup(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{})
	ns := c.Namespace(t)
	c.Create(t, ns, rayCluster("one", 1))
	c.Create(t, ns, fmt.Sprintf(podGroup, "one", 2))
	c.AwaitReady(t, ns, "one")
	if err := c.Dynamic.Resource(kubetest.RayClusters).Namespace(ns).Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.NothingLeft(t, ns, func(object string) bool { return object == "podgroups.scheduling.volcano.sh/one" })
}

// rayCluster is a cluster whose pods belong to the PodGroup of its name, with probes every second.
func rayCluster(name string, workers int) string {
	template := func(container string) string {
		return fmt.Sprintf(`
      metadata: {annotations: {scheduling.k8s.io/group-name: %s}}
      spec:
        schedulerName: volcano
        terminationGracePeriodSeconds: 4
        containers:
        - name: %s
          image: rayproject/ray:2.60.0
          resources: {requests: {cpu: 200m, memory: 256Mi}, limits: {memory: 3Gi}}
          readinessProbe: {httpGet: {port: 52365, path: /api/healthz}, periodSeconds: 1, failureThreshold: 200}`, name, container)
	}
	return fmt.Sprintf(`
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: %s}
spec:
  rayVersion: 2.60.0
  headGroupSpec:
    rayStartParams: {num-cpus: "1"}
    template:%s
  workerGroupSpecs:
  - groupName: workers
    replicas: %d
    minReplicas: %d
    maxReplicas: %d
    rayStartParams: {num-cpus: "1"}
    template:%s
`, name, template("ray-head"), workers, workers, workers, strings.ReplaceAll(template("ray-worker"), "\n", "\n  "))
}

// pod is an idle pod for a scheduler.
func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "pause", Image: "rayctl.test/pause:1", ImagePullPolicy: corev1.PullNever}},
			TerminationGracePeriodSeconds: new(int64),
		},
	}
}

func awaitRunning(t *testing.T, c *kubetest.Cluster, ns, name string) *corev1.Pod {
	t.Helper()
	var got *corev1.Pod
	kubetest.Await(t, "pod "+name, func(ctx context.Context) (err error) {
		if got, err = c.Core.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if got.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s: %v", got.Status.Phase, got.Status.Conditions)
		}
		return nil
	})
	return got
}

func TestPartsCanBeStoppedAndStarted(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{NoRay: true})
	ns := c.Namespace(t)
	if _, err := c.Core.CoreV1().Pods(ns).Create(t.Context(), pod("before"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := awaitRunning(t, c, ns, "before")

	c.StopAPIServer(t)
	if _, err := c.Core.CoreV1().Pods(ns).Get(t.Context(), "before", metav1.GetOptions{}); err == nil {
		t.Fatal("the API server answers though it is stopped")
	}
	c.StartAPIServer(t)
	after := awaitRunning(t, c, ns, "before")
	if after.UID != before.UID || after.Status.StartTime.Time != before.Status.StartTime.Time {
		t.Errorf("the pod is another after the restart of the API server: %v, was %v", after.Status, before.Status)
	}

	c.StopVolcano(t)
	c.StopOperator(t)
	c.StartOperator(t)
	c.StartVolcano(t)

	c.LoseNode(t)
	kubetest.Await(t, "the lost node to be noticed", func(ctx context.Context) error {
		node, err := c.Core.CoreV1().Nodes().Get(ctx, bed.NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionUnknown {
				return nil
			}
		}
		return errors.New("it is still ready")
	})
	c.RestoreNode(t)
	if _, err := c.Core.CoreV1().Pods(ns).Create(t.Context(), pod("after"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, c, ns, "after")
	if n := c.DeletePods(t, ns, "", 0); n == 0 {
		t.Error("there was no pod to delete")
	}
}

func TestLimitedUsersMayDoWhatTheirRoleSays(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{NoRay: true})
	ns := c.Namespace(t)
	user := clientFor(t, c.LimitedKubeconfig(t, ns, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}))
	if _, err := user.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("listing pods: %v", err)
	}
	if _, err := user.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing secrets: %v, want forbidden", err)
	}
	if _, err := user.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing another namespace's pods: %v, want forbidden", err)
	}
	expired := clientFor(t, c.InvalidKubeconfig(t, ns))
	if _, err := expired.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("listing pods with an unknown token: %v, want unauthorized", err)
	}
}

func clientFor(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestNothingIsLeft runs last: a testbed whose container runtime was killed under a running pod is removed completely, and
// starts again.
func TestNothingIsLeft(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{NoRay: true})
	if _, err := c.Core.CoreV1().Pods("default").Create(t.Context(), pod("last"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, c, "default", "last")
	b, err := bed.Open(t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := b.Stop(ctx, "containerd"); err != nil {
		t.Fatal(err)
	}
	if err := b.Down(ctx); err != nil {
		t.Fatal(err)
	}
	if left := b.Leftovers(); len(left) > 0 {
		t.Fatalf("left on the machine: %v", left)
	}
	c = kubetest.Start(t, kubetest.Options{NoRay: true})
	pods, err := c.Core.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("a new testbed has %d pods (%v)", len(pods.Items), err)
	}
}
