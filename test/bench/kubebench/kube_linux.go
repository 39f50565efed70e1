// Package kubebench measures rayctl beside KubeRay's RayJobs on a private Kubernetes.
package kubebench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rayctl/rayctl/test/bench/measure"
	"github.com/rayctl/rayctl/test/kubetest/bed"
	"github.com/rayctl/rayctl/test/kubetest/build"
)

// Measures are the measures on a private Kubernetes, in the order of the table.
func Measures() []measure.Measure {
	k := &kube{}
	return []measure.Measure{
		{Name: "life", Run: k.measureLife}, {Name: "interrupt", Run: k.measureInterrupt}, {Name: "latency", Run: k.measureLatency}, {Name: "package", Run: k.measurePackage}, {Name: "minute", Run: k.measureMinute},
		{Name: "elastic", Run: k.measureElastic}, {Name: "early", Run: k.measureEarly}, {Name: measure.Unchanged, Run: k.measureUnchanged},
	}
}

// kube is the testbed of the measures: one namespace, and a directory that all pods of the bench mount.
type kube struct {
	bed        *bed.Bed
	unlock     func()
	rest       *rest.Config
	core       kubernetes.Interface
	dynamic    dynamic.Interface
	namespace  string
	kubeconfig string
	shared     string
}

// gpus of the node, without devices.
const gpus = 8

// shareDir is the path of the shared directory in pods.
const shareDir = "/bench"

// up starts the testbed, once.
func (k *kube) up(ctx context.Context, b *measure.Bench) error {
	if k.shared != "" {
		return nil
	}
	k.shared = filepath.Join(b.Dir, "shared")
	if err := os.Mkdir(k.shared, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(k.shared, 0o777); err != nil { // pods write as another user
		return err
	}
	var err error
	if k.bed, err = bed.Open(b.Say); err != nil {
		return err
	}
	if k.unlock, err = k.bed.Lock(ctx); err != nil {
		return err
	}
	b.AtEnd = append(b.AtEnd, func() { //nolint:contextcheck // also after an interrupt
		if err := k.close(); err != nil {
			b.Say("%v", err)
		}
	})
	config := bed.Config{CPUs: bed.DefaultCPUs, GPUs: gpus, Volcano: true}
	if config.Versions, err = build.Chosen(); err != nil {
		return err
	}
	if config.Python, err = build.Python(ctx, b.Say); err != nil {
		return err
	}
	if err := k.bed.Up(ctx, config); err != nil {
		return err
	}
	return k.connect(ctx, b)
}

func (k *kube) connect(ctx context.Context, b *measure.Bench) (err error) {
	if k.rest, err = k.bed.RESTConfig(); err != nil {
		return err
	}
	if k.core, err = kubernetes.NewForConfig(k.rest); err != nil {
		return err
	}
	if k.dynamic, err = dynamic.NewForConfig(k.rest); err != nil {
		return err
	}
	k.namespace = "bench-" + rand.String(5)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.namespace}}
	if _, err := k.core.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	k.kubeconfig = filepath.Join(b.Dir, "kubeconfig")
	return k.bed.WriteKubeconfig(k.kubeconfig, k.namespace, k.rest.BearerToken)
}

// close ends the testbed, unless it was started by `make kubernetes`.
func (k *kube) close() error {
	defer k.unlock()
	if k.bed.Kept() {
		return k.core.CoreV1().Namespaces().Delete(context.Background(), k.namespace, metav1.DeleteOptions{})
	}
	return k.bed.Down(context.Background())
}

// file starts the testbed if necessary, and writes a cluster file with n workers, as small as those of the RayJobs.
func (k *kube) file(ctx context.Context, b *measure.Bench, workers int) (string, error) {
	if err := k.up(ctx, b); err != nil {
		return "", err
	}
	path := filepath.Join(b.Dir, fmt.Sprintf("workers-%d.yaml", workers))
	text := `
name: bench
launcher: kuberay
ray: {version: ` + measure.RayVersion + `}
head: {cpus: 200m, memory: 3Gi}
mounts: [{mountPath: ` + shareDir + `, source: {kuberay: {hostPath: {path: ` + k.shared + `}}}}]
`
	if workers > 0 {
		text += fmt.Sprintf("workers: [{name: w, replicas: %d, cpus: 200m, memory: 2Gi}]\n", workers)
	}
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// stampDriver is a driver of one line that writes its start and end times to files.
const stampDriver = `python -c "import time; open('` + shareDir + `/first','w').write(str(time.time())); print('hi', flush=True); open('` + shareDir + `/last','w').write(str(time.time()))"`

// stamp waits for a time written by a driver, and removes its file.
func (k *kube) stamp(ctx context.Context, name string) (time.Time, error) {
	path := filepath.Join(k.shared, name)
	for {
		text, err := os.ReadFile(path)
		if err == nil && len(text) > 0 {
			at, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
			return time.UnixMicro(int64(at * 1e6)), errors.Join(err, os.Remove(path))
		}
		if err := pause(ctx); err != nil {
			return time.Time{}, fmt.Errorf("the driver left no time of its %s moment: %w", name, err)
		}
	}
}

// podsGone waits until no pod of Ray is left and returns that time.
func (k *kube) podsGone(ctx context.Context) (time.Time, error) {
	for {
		pods, err := k.core.CoreV1().Pods(k.namespace).List(ctx, metav1.ListOptions{LabelSelector: "ray.io/cluster"})
		if err != nil {
			return time.Time{}, err
		}
		if len(pods.Items) == 0 {
			return time.Now(), nil
		}
		if err := pause(ctx); err != nil {
			return time.Time{}, fmt.Errorf("%d pods are left: %w", len(pods.Items), err)
		}
	}
}

func pause(ctx context.Context) error {
	t := time.NewTimer(20 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// measureLife runs a driver of one line through the life of a cluster of three pods.
func (k *kube) measureLife(ctx context.Context, b *measure.Bench) ([]measure.Row, error) {
	file, err := k.file(ctx, b, 2)
	if err != nil {
		return nil, err
	}
	var http, job, ours measure.StartAndEnd
	err = b.Repeat(ctx, "life", k.rayJob("HTTPMode", &http), k.rayJob("K8sJobMode", &job), func(ctx context.Context) error {
		first, end, err := k.rayctlRun(ctx, b, file)
		ours.Add(first, end)
		return err
	})
	if err != nil {
		return nil, err
	}
	most := 0.65 * measure.Median(http.First)
	return []measure.Row{
		measure.Compare("1 head and 2 workers: command start to driver's first line (RayJob HTTPMode)", measure.Seconds, http.First, ours.First, most, "at most 0.65 of it: "+measure.Seconds(most)),
		measure.Compare("the same (RayJob K8sJobMode)", measure.Seconds, job.First, ours.First, most, ""),
		measure.Compare("driver's last line to no Ray pod left (RayJob HTTPMode)", measure.Seconds, http.End, ours.End, 3, ""),
		measure.Compare("the same (RayJob K8sJobMode)", measure.Seconds, job.End, ours.End, 3, ""),
	}, nil
}

// rayctlRun is `rayctl run` of such a driver.
func (k *kube) rayctlRun(ctx context.Context, b *measure.Bench, file string) (first, end float64, err error) {
	return k.lived(ctx, func(ctx context.Context) error {
		_, err := k.rayctl(ctx, b, "run", "-f", file, "--", "sh", "-c", stampDriver)
		return err
	})
}

// lived runs one job with a command that may return before or after the end. It returns the seconds from the command to the driver's first statement, and
// from the driver's end to no pod.
func (k *kube) lived(ctx context.Context, command func(context.Context) error) (toFirst, toEnd float64, err error) {
	begun, ended := time.Now(), make(chan error, 1)
	go func() { ended <- command(ctx) }()
	first, err := k.stamp(ctx, "first")
	if err != nil {
		return 0, 0, err
	}
	last, err := k.stamp(ctx, "last")
	if err != nil {
		return 0, 0, err
	}
	gone, err := k.podsGone(ctx)
	if err != nil {
		return 0, 0, err
	}
	return first.Sub(begun).Seconds(), gone.Sub(last).Seconds(), <-ended
}

// kubeRayctl runs rayctl on the testbed.
func (k *kube) rayctl(ctx context.Context, b *measure.Bench, args ...string) (*measure.Done, error) {
	return b.Command(ctx, b.Environment("KUBECONFIG="+k.kubeconfig), b.Rayctl, args...)
}

// rayJob runs the driver as a RayJob, with KubeRay's own life cycle.
func (k *kube) rayJob(mode string, l *measure.StartAndEnd) func(context.Context) error {
	return func(ctx context.Context) error {
		name := "peer-" + strings.ToLower(mode)
		jobs := k.dynamic.Resource(rayJobs).Namespace(k.namespace)
		first, end, err := k.lived(ctx, func(ctx context.Context) error {
			_, err := jobs.Create(ctx, rayJob(name, mode, k.shared), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			return err
		})
		if err != nil {
			return err
		}
		l.Add(first, end)
		if err := jobs.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		for {
			if _, err := jobs.Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
				return nil
			}
			if err := pause(ctx); err != nil {
				return err
			}
		}
	}
}

// rayJob is 1 head and 2 workers of the same size as rayctl's, as a user of KubeRay would write it.
func rayJob(name, mode, shared string) *unstructured.Unstructured {
	template := func(container, memory string) map[string]any {
		return map[string]any{"spec": map[string]any{
			"volumes": []any{map[string]any{"name": "bench", "hostPath": map[string]any{"path": shared}}},
			"containers": []any{map[string]any{
				"name": container, "image": "rayproject/ray:" + measure.RayVersion,
				"resources":    map[string]any{"requests": map[string]any{"cpu": "200m", "memory": memory}, "limits": map[string]any{"memory": memory}},
				"volumeMounts": []any{map[string]any{"name": "bench", "mountPath": shareDir}},
			}},
		}}
	}
	params := map[string]any{"num-cpus": "1"}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"entrypoint": stampDriver, "submissionMode": mode, "shutdownAfterJobFinishes": true,
			"rayClusterSpec": map[string]any{
				"rayVersion":    measure.RayVersion,
				"headGroupSpec": map[string]any{"rayStartParams": params, "template": template("ray-head", "3Gi")},
				"workerGroupSpecs": []any{map[string]any{
					"groupName": "w", "replicas": int64(2), "minReplicas": int64(2), "maxReplicas": int64(2), "rayStartParams": params, "template": template("ray-worker", "2Gi"),
				}},
			},
		},
	}}
}
