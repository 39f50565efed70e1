package kuberay

import (
	"context"
	"slices"
	"sync"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/rayctl/rayctl/launcher"
)

// objectCache keeps a copy of one cluster's objects up to date by list and watch.
type objectCache struct {
	changed                             chan struct{} // something is new
	jobs, pods, clusters, clusterEvents cache.Store
	gangs, gangEvents                   []cache.Store // of each gang scheduler that the API server serves
	name                                string
	apiHealth                           *apiHealth
	host                                string

	mu     sync.Mutex
	broken string    // why the API server does not answer
	at     time.Time // since when
}

// mirror begins to watch, and returns when all was listed once.
func (c *client) newObjectCache(ctx context.Context, name string) (*objectCache, error) {
	m := &objectCache{changed: make(chan struct{}, 1), name: name, apiHealth: c.apiHealth, host: c.config.Host}
	selector, err := c.podSelector(ctx, name)
	if err != nil {
		return nil, err
	}
	ours := func(o *metav1.ListOptions) { o.LabelSelector = labelName + "=" + name }
	core, batch := c.core.CoreV1().RESTClient(), c.core.BatchV1().RESTClient()
	failed := make(chan error, 8)
	var synced []cache.InformerSynced
	follow := func(lw cache.ListerWatcher, object runtime.Object, resource string) cache.Store {
		informer := cache.NewSharedInformer(lw, object, 0)
		if err := informer.SetWatchErrorHandlerWithContext(m.onError(failed, resource, c)); err != nil {
			panic("kuberay: an informer that has not begun takes no handler: " + err.Error()) // impossible
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { m.notify() }, UpdateFunc: func(any, any) { m.notify() }, DeleteFunc: func(any) { m.notify() },
		}); err != nil {
			panic("kuberay: an informer that has not begun takes no handler: " + err.Error()) // impossible
		}
		synced = append(synced, informer.HasSynced)
		go informer.RunWithContext(ctx)
		return informer.GetStore()
	}
	m.jobs = follow(cache.NewFilteredListWatchFromClient(batch, "jobs", c.namespace, ours), &batchv1.Job{}, "jobs.batch")
	m.pods = follow(cache.NewFilteredListWatchFromClient(core, "pods", c.namespace, func(o *metav1.ListOptions) { o.LabelSelector = selector }), &corev1.Pod{}, "pods")
	m.clusters = follow(c.one(ctx, rayClusters, name), &unstructured.Unstructured{}, rayClusters.GroupResource().String())
	m.clusterEvents = follow(eventsOf(core, c.namespace, name), &corev1.Event{}, "events")
	for _, g := range c.served.gangs {
		m.gangs = append(m.gangs, follow(c.one(ctx, g.Resource(), g.ObjectName(name)), &unstructured.Unstructured{}, g.Resource().GroupResource().String()))
		m.gangEvents = append(m.gangEvents, follow(eventsOf(core, c.namespace, g.ObjectName(name)), &corev1.Event{}, "events"))
	}
	return m, m.awaitSync(ctx, synced, failed)
}

// podSelector finds the pods: of ours also keeper and record, of others' clusters those that KubeRay labels.
func (c *client) podSelector(ctx context.Context, name string) (string, error) {
	rc, err := c.getCluster(ctx, launcher.ID(name))
	if err != nil && !apierrors.IsNotFound(err) {
		return "", explain(err, "get", rayClusters.GroupResource().String(), c)
	}
	if err == nil && rc.GetLabels()[labelManagedBy] != managedBy {
		return rayClusterLabel + "=" + name, nil
	}
	return labelName + "=" + name, nil
}

// awaitSync waits for the first lists. A refusal is final then; later ones are waited out.
func (m *objectCache) awaitSync(ctx context.Context, synced []cache.InformerSynced, failed <-chan error) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		cache.WaitForCacheSync(ctx.Done(), synced...)
	}()
	for {
		select {
		case err := <-failed:
			return err
		case <-done:
			if ctx.Err() != nil {
				return interrupted(ctx.Err(), m.name)
			}
			return nil
		}
	}
}

// onError notes that the API server cannot be watched now. Informers go on by themselves, with growing pauses.
func (m *objectCache) onError(failed chan<- error, resource string, c *client) cache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || ctx.Err() != nil {
			return
		}
		explained := explain(err, "list", resource, c)
		select {
		case failed <- explained:
		default:
		}
		if !retryable(err) && !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) {
			return // the usual end of a watch
		}
		m.mu.Lock()
		m.broken, m.at = explained.Error(), time.Now()
		m.mu.Unlock()
		m.notify()
	}
}

// trouble says why the API server does not answer; "" while it does. It is over with the first news.
func (m *objectCache) trouble() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.at) > troubleFades {
		m.broken = ""
	}
	if silent := m.apiHealth.trouble(); silent != "" {
		return "the Kubernetes at " + m.host + " does not answer: " + silent
	}
	return m.broken
}

// troubleFades: an informer tries again within this time, and says so again.
const troubleFades = 35 * time.Second

func (m *objectCache) notify() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// observe is everything as it is mirrored now.
func (m *objectCache) snapshot() *snapshot {
	o := &snapshot{now: time.Now().UTC(), pods: objects[corev1.Pod](m.pods)}
	for _, job := range objects[batchv1.Job](m.jobs) {
		switch {
		case job.Name == m.name && job.Labels[labelManagedBy] == managedBy:
			o.job = job
		case job.Name == recordName(m.name):
			o.record = job
		}
	}
	for _, rc := range objects[rayv1.RayCluster](m.clusters) {
		o.cluster = rc
	}
	o.events = objects[corev1.Event](m.clusterEvents)
	for i := range m.gangs {
		for _, g := range objects[unstructured.Unstructured](m.gangs[i]) {
			o.gang = g
		}
		o.events = slices.Concat(o.events, objects[corev1.Event](m.gangEvents[i]))
	}
	return o
}

func eventsOf(client rest.Interface, namespace, object string) cache.ListerWatcher {
	return cache.NewListWatchFromClient(client, "events", namespace, fields.OneTermEqualSelector("involvedObject.name", object))
}

// one watches a single object of a resource without a typed client.
func (c *client) one(_ context.Context, r schema.GroupVersionResource, name string) cache.ListerWatcher {
	only := fields.OneTermEqualSelector("metadata.name", name).String()
	resource := c.dynamic.Resource(r).Namespace(c.namespace)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return resource.Watch(ctx, o)
		},
	}
}
