package kubebench

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/test/bench/measure"
)

const (
	earlyWorkers = 2                // each with one GPU
	earlyPrepare = 20 * time.Second // of job.prepare
	earlyBlocked = 30 * time.Second // for which the queue has no room
)

var queues = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "queues"}

// measureEarly compares a run whose gang is queued at first, and whose job.prepare takes a while, with and without an early head: for how long its GPUs were
// allocated before the driver's first line.
func (k *kube) measureEarly(ctx context.Context, b *measure.Bench) ([]measure.Row, error) {
	if err := k.up(ctx, b); err != nil {
		return nil, err
	}
	var without, with []float64
	side := func(into *[]float64, early bool) func(context.Context) error {
		return func(ctx context.Context) error {
			spent, err := k.beforeDriver(ctx, b, early)
			*into = append(*into, spent)
			return err
		}
	}
	if err := b.Repeat(ctx, "kuberay, early head", side(&without, false), side(&with, true)); err != nil {
		return nil, err
	}
	count := func(v float64) string { return fmt.Sprintf("%.0f", v) }
	return []measure.Row{measure.Compare(fmt.Sprintf("early head (without), job.prepare of %s behind a full queue: GPU-seconds before the driver's first line", earlyPrepare), count,
		without, with, 0.6*measure.Median(without), "at most 0.60 of it")}, nil
}

// beforeDriver makes one run and returns the seconds for which its GPUs were allocated until the driver's first line.
func (k *kube) beforeDriver(ctx context.Context, b *measure.Bench, early bool) (spent float64, err error) {
	queue := k.namespace + "-full"
	if err := k.createQueue(ctx, queue); err != nil {
		return 0, err
	}
	defer func() { //nolint:contextcheck // also after an interrupt
		err = errors.Join(err, k.dynamic.Resource(queues).Delete(context.Background(), queue, metav1.DeleteOptions{}))
	}()
	file, err := k.document(b, "early", map[string]any{
		"head":    map[string]any{"cpus": 0.2, "memory": "3Gi", "early": early},
		"workers": []any{map[string]any{"name": "w", "cpus": 0.2, "memory": "2Gi", "gpus": 1, "replicas": earlyWorkers}},
		"kuberay": map[string]any{"queue": queue},
		"job":     map[string]any{"prepare": fmt.Sprintf("sleep %.0f", earlyPrepare.Seconds()), "entrypoint": "date +%s.%N >" + shareDir + "/first"},
	})
	if err != nil {
		return 0, err
	}
	widened := make(chan error, 1)
	room := time.AfterFunc(earlyBlocked, func() { widened <- k.widen(ctx, queue) })
	defer room.Stop()
	workers, err := k.ofWorkers(ctx, func() error { return k.run(ctx, b, file) })
	if err != nil {
		return 0, err
	}
	if err := <-widened; err != nil {
		return 0, err
	}
	first, err := k.stamp(ctx, "first")
	for _, w := range workers {
		spent += seconds(first) - w.placed
	}
	return spent, err
}

// createQueue makes a queue that has room for no pod of the bench.
func (k *kube) createQueue(ctx context.Context, name string) error {
	queue := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": queues.GroupVersion().String(), "kind": "Queue", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"weight": int64(1), "capability": map[string]any{"cpu": "100m"}},
	}}
	_, err := k.dynamic.Resource(queues).Create(ctx, queue, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}

// widen gives the queue room for the pods.
func (k *kube) widen(ctx context.Context, name string) error {
	wide := []byte(`{"spec": {"capability": {"cpu": "100"}}}`)
	_, err := k.dynamic.Resource(queues).Patch(ctx, name, types.MergePatchType, wide, metav1.PatchOptions{})
	return err
}
