package observe

import (
	"context"
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/api"
)

// askEvery is how often an admitter is asked why something waits in its queue.
const askEvery = 5 * time.Second

// inQueues are the objects of a cluster that wait in a queue.
func (o *Snapshot) inQueues() (out []metav1.Object) {
	for _, job := range []*batchv1.Job{o.Job, o.Record} {
		if job != nil && InQueue(job) {
			out = append(out, job)
		}
	}
	if o.Cluster != nil && ptr.Deref(o.Cluster.Spec.Suspend, false) && queueOf(o.Cluster) != "" {
		out = append(out, o.Cluster)
	}
	return out
}

// followHeld keeps up to date why the cluster's objects wait in a queue, while some do.
func (m *Cache) followHeld(ctx context.Context, c *api.Client) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		if waiting := m.Snapshot().inQueues(); len(waiting) > 0 {
			asked, done := context.WithTimeout(ctx, askEvery)
			why := c.WhyHeld(asked, waiting)
			done()
			m.mu.Lock()
			changed := !maps.Equal(m.inQueue, why)
			m.inQueue = why
			m.mu.Unlock()
			if changed {
				m.notify()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
