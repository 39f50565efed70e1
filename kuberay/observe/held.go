package observe

import (
	"context"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/api"
)

// askEvery is how often an admitter is asked why something waits in its queue; askSoon before its first word.
const (
	askEvery = 5 * time.Second
	askSoon  = time.Second
)

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

// wordless reports whether an admitter has said nothing yet of something that waits in its queue since a moment ago.
func (o *Snapshot) wordless(waiting []metav1.Object) bool {
	return slices.ContainsFunc(waiting, func(object metav1.Object) bool {
		return o.inQueue[object.GetUID()].Why == "" && o.Now.Sub(object.GetCreationTimestamp().Time) <= Silence
	})
}

// followHeld keeps up to date why the cluster's objects wait in a queue, while some do.
func (m *Cache) followHeld(ctx context.Context, c *api.Client) {
	tick := time.NewTicker(askSoon)
	defer tick.Stop()
	var asked time.Time
	for {
		o := m.Snapshot()
		if waiting := o.inQueues(); len(waiting) > 0 && (time.Since(asked) >= askEvery || o.wordless(waiting)) {
			asked = time.Now()
			m.askHeld(ctx, c, waiting)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (m *Cache) askHeld(ctx context.Context, c *api.Client, waiting []metav1.Object) {
	ctx, done := context.WithTimeout(ctx, askEvery)
	defer done()
	why := c.WhyHeld(ctx, waiting)
	m.mu.Lock()
	changed := !maps.Equal(m.inQueue, why)
	m.inQueue = why
	m.mu.Unlock()
	if changed {
		m.notify()
	}
}
