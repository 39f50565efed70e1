//go:build linux

package chaos

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/test/kubetest/bed"
)

func (w *kubeWorld) elasticFaults() map[string]fault {
	all := w.faults()
	queued := func(name string) fault {
		f := all[name]
		f.strike = w.whileQueued(f.strike)
		return f
	}
	elastic := func(name string, strike func(*runningCase) bool) fault {
		f := all[name]
		f.strike = w.besideElastic(strike)
		return f
	}
	starting := func(name string) fault {
		f := all[name]
		f.strike = w.whileStarting(f.strike)
		return f
	}
	operator, apiServer := w.away(bed.Operator, 8*time.Second), w.away(bed.APIServer, 8*time.Second)
	return merge(nodeFaults(), map[string]fault{
		"keeper's process killed while a pod is queued": queued("keeper's process killed"),
		"keeper's pod deleted while a pod is queued":    queued("keeper's pod deleted"),
		"head's pod deleted while a pod is queued":      queued("head's pod deleted"),
		"down while a pod is queued":                    queued("down"),
		"down --now while a pod is queued":              queued("down --now"),
		"operator killed while a pod is queued":         {strike: w.whileQueued(operator)},
		"API server killed while a pod is queued":       {strike: w.whileQueued(apiServer)},
		"keeper's process killed beside elastic pods":   elastic("keeper's process killed", all["keeper's process killed"].strike),
		"head's pod deleted beside elastic pods":        elastic("head's pod deleted", all["head's pod deleted"].strike),
		"keeper's process killed while a pod starts":    starting("keeper's process killed"),
		"head's pod deleted while a pod starts":         starting("head's pod deleted"),
		"down while a pod starts":                       starting("down"),
		"elastic pod deleted":                           {strike: w.besideElastic(w.deleteLastWorker)},
		"elastic pod evicted":                           {strike: w.besideElastic(func(r *runningCase) bool { return w.evict(w.lastWorker(r)) })},
		"node drained of workers":                       {strike: w.besideElastic(w.drainWorkers)},
		"sizes flap": {strike: func(r *runningCase) bool {
			struck := false
			for i := range 10 {
				least := r.d.workers + i%2*(2-r.d.workers)
				struck = r.rayctl("scale", r.d.run(), fmt.Sprintf("w=%d:2", least)).code == 0 || struck
			}
			return struck
		}, gentle: true},
	})
}

// whileQueued strikes while a worker's pod waits for a node: the bed's takes no pods meanwhile, and for some seconds after it.
func (w *kubeWorld) whileQueued(strike func(*runningCase) bool) func(*runningCase) bool {
	return func(r *runningCase) bool {
		w.cordon(true)
		defer w.cordon(false)
		waits := func(p *corev1.Pod) bool { return p.Spec.NodeName == "" && p.DeletionTimestamp == nil }
		if w.awaitWorker(r, waits) == nil {
			return false
		}
		struck := strike(r)
		time.Sleep(4 * time.Second)
		return struck
	}
}

// whileStarting strikes when a worker's pod that was not there before has a node, on which it starts.
func (w *kubeWorld) whileStarting(strike func(*runningCase) bool) func(*runningCase) bool {
	return func(r *runningCase) bool {
		before := map[types.UID]bool{}
		for _, p := range w.workers(r) {
			before[p.UID] = true
		}
		another := w.awaitWorker(r, func(p *corev1.Pod) bool { return p.Spec.NodeName != "" && p.DeletionTimestamp == nil && !before[p.UID] })
		return another != nil && strike(r)
	}
}

// besideElastic strikes when there is a worker's pod on a node above the required ones.
func (w *kubeWorld) besideElastic(strike func(*runningCase) bool) func(*runningCase) bool {
	return func(r *runningCase) bool {
		placed := map[types.UID]bool{}
		extra := w.awaitWorker(r, func(p *corev1.Pod) bool {
			if p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
				placed[p.UID] = true
			}
			return len(placed) > r.d.workers
		})
		return extra != nil && strike(r)
	}
}

// awaitWorker waits for a worker's pod that the driver's tasks ask for, and where they ask for none, as between two bursts, for one that a user asks for.
func (w *kubeWorld) awaitWorker(r *runningCase, match func(*corev1.Pod) bool) *corev1.Pod {
	if p := w.workerWithin(5*time.Second, r, match); p != nil || r.rayctl("scale", r.d.run(), "w=2").code != 0 {
		return p
	}
	return w.workerWithin(15*time.Second, r, match)
}

func (w *kubeWorld) workerWithin(limit time.Duration, r *runningCase, match func(*corev1.Pod) bool) *corev1.Pod {
	for end := time.Now().Add(limit); time.Now().Before(end) && !r.over(); time.Sleep(200 * time.Millisecond) {
		for _, p := range w.pods(r.d.run()) {
			if p.Labels["ray.io/node-type"] == "worker" && match(&p) {
				return &p
			}
		}
	}
	return nil
}

// workers are the run's pods of workers that nobody has deleted yet.
func (w *kubeWorld) workers(r *runningCase) (found []corev1.Pod) {
	for _, p := range w.pods(r.d.run()) {
		if p.Labels["ray.io/node-type"] == "worker" && p.DeletionTimestamp == nil {
			found = append(found, p)
		}
	}
	return found
}

// lastWorker is the newest of them.
func (w *kubeWorld) lastWorker(r *runningCase) *corev1.Pod {
	var last *corev1.Pod
	for _, p := range w.workers(r) {
		if last == nil || last.CreationTimestamp.Before(&p.CreationTimestamp) {
			last = &p
		}
	}
	return last
}

// deleteLastWorker deletes the newest worker's pod at once, as somebody else may.
func (w *kubeWorld) deleteLastWorker(r *runningCase) bool {
	last, now := w.lastWorker(r), int64(0)
	return last != nil && w.Core.CoreV1().Pods(w.namespace).Delete(context.Background(), last.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}) == nil
}

// drainWorkers is `kubectl drain` of a node that has all of the run's workers and nothing else of it: it takes no pods, and those that it has are evicted.
func (w *kubeWorld) drainWorkers(r *runningCase) bool {
	w.cordon(true)
	defer w.cordon(false)
	struck := false
	for _, p := range w.workers(r) {
		struck = w.evict(&p) || struck
	}
	time.Sleep(4 * time.Second)
	return struck
}

// evict asks the API server to evict a pod, which has its grace; it returns whether it will.
func (w *kubeWorld) evict(p *corev1.Pod) bool {
	return p != nil && w.Core.PolicyV1().Evictions(w.namespace).Evict(context.Background(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}}) == nil
}

// cordon sets whether the bed's node takes no pods. It is tried until it succeeds: the API server may be away.
func (w *kubeWorld) cordon(yes bool) {
	patch := fmt.Appendf(nil, `{"spec": {"unschedulable": %v}}`, yes)
	w.stubbornly(func() error {
		_, err := w.Core.CoreV1().Nodes().Patch(context.Background(), bed.NodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

func (w *kubeWorld) stubbornly(do func() error) {
	var err error
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(300 * time.Millisecond) {
		if err = do(); err == nil {
			return
		}
	}
	w.t.Errorf("tried for a minute: %v", err)
}
