//go:build linux

package chaos

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/kubetest/bed"
)

func (w *kubeWorld) earlyFaults() map[string]fault {
	all := w.faults()
	out := merge(earlyFaults(all), map[string]fault{
		"head's pod evicted while prepare hangs": {closed: true, prepare: hangsFirst, strike: w.deletePods("ray.io/node-type=head,ray.io/cluster=", -1),
			causes: []string{"lost", "preempted"}, node: true, lossy: true},
		"gang's pod deleted":                   {strike: w.besideGang(w.deleteLastWorker)},
		"gang's pod evicted":                   {strike: w.besideGang(func(r *runningCase) bool { return w.evict(w.lastWorker(r)) })},
		"gang's pod deleted while it waits":    {closed: true, strike: w.deleteLastWorker},
		"Volcano killed while the gang waits":  {closed: true, strike: w.away(bed.VolcanoScheduler, 8*time.Second)},
		"operator killed while the gang waits": {closed: true, strike: w.away(bed.Operator, 8*time.Second)},
	})
	aroundGrant(w, out, all,
		[]string{"keeper's process killed", "keeper's pod deleted", "keeper's pod evicted", "head's pod deleted", "RayCluster deleted", "GCS killed", "API server killed"},
		[]string{"keeper's process killed", "keeper's pod deleted", "head's pod deleted", "RayCluster deleted", "GCS killed", "down"})
	return out
}

// besideGang strikes when a pod of the gang has a node.
func (w *kubeWorld) besideGang(strike func(*runningCase) bool) func(*runningCase) bool {
	return func(r *runningCase) bool {
		placed := func(p *corev1.Pod) bool { return p.Spec.NodeName != "" && p.DeletionTimestamp == nil }
		return w.workerWithin(time.Minute, r, placed) != nil && strike(r)
	}
}

// queue is Volcano's queue of the workers with an early head.
func (w *kubeWorld) queue() string { return "chaos-" + w.namespace }

// hold sets whether the queue has room for nothing.
func (w *kubeWorld) hold(closed bool) {
	room := "100"
	if closed {
		room = "100m"
	}
	patch := fmt.Appendf(nil, `{"spec": {"capability": {"cpu": %q}}}`, room)
	w.stubbornly(func() error {
		_, err := w.Dynamic.Resource(kubetest.Queues).Patch(context.Background(), w.queue(), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}
