package kubebench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// podLife is when a pod was made, had its node, and was gone, in seconds since 1970 as it was seen: Kubernetes itself notes whole seconds.
type podLife struct{ made, placed, gone float64 }

// workerLives watches the pods of Ray's workers.
type workerLives struct {
	watch watch.Interface
	ended chan struct{}

	mu    sync.Mutex
	lives map[types.UID]*podLife
}

// watchWorkers begins to watch; Stop must follow.
func (k *kube) watchWorkers(ctx context.Context) (*workerLives, error) {
	found, err := k.core.CoreV1().Pods(k.namespace).Watch(ctx, metav1.ListOptions{LabelSelector: "ray.io/node-type=worker"})
	if err != nil {
		return nil, err
	}
	w := &workerLives{watch: found, ended: make(chan struct{}), lives: map[types.UID]*podLife{}}
	go w.look()
	return w, nil
}

func (w *workerLives) look() {
	defer close(w.ended)
	for event := range w.watch.ResultChan() {
		pod, is := event.Object.(*corev1.Pod)
		if !is {
			return
		}
		now := seconds(time.Now())
		w.mu.Lock()
		life := w.lives[pod.UID]
		if life == nil {
			life = &podLife{made: now}
			w.lives[pod.UID] = life
		}
		if life.placed == 0 && pod.Spec.NodeName != "" {
			life.placed = now
		}
		if event.Type == watch.Deleted {
			life.gone = now
		}
		w.mu.Unlock()
	}
}

// complete reports whether all pods are gone that were seen.
func (w *workerLives) complete() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, life := range w.lives {
		if life.gone == 0 {
			return false
		}
	}
	return true
}

// await waits until all are, after the API server has answered so: the watch may report it later.
func (w *workerLives) await(ctx context.Context) error {
	for !w.complete() {
		if err := pause(ctx); err != nil {
			return fmt.Errorf("the watch of the workers' pods has missed their end: %w", err)
		}
	}
	return nil
}

// all ends the watch and returns the pods' lives, the oldest first.
func (w *workerLives) all() []podLife {
	w.watch.Stop()
	<-w.ended
	lives := make([]podLife, 0, len(w.lives))
	for _, life := range w.lives {
		lives = append(lives, *life)
	}
	slices.SortFunc(lives, func(a, b podLife) int { return cmp.Compare(a.made, b.made) })
	return lives
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// ofWorkers runs something that ends all of its pods, and returns the lives of the workers'.
func (k *kube) ofWorkers(ctx context.Context, run func() error) ([]podLife, error) {
	watched, err := k.watchWorkers(ctx)
	if err != nil {
		return nil, err
	}
	err = run()
	if err == nil {
		_, err = k.podsGone(ctx)
	}
	if err == nil {
		err = watched.await(ctx)
	}
	return watched.all(), err
}
