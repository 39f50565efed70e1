package observe

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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
)

// Cache keeps a copy of one cluster's objects up to date by list and watch.
type Cache struct {
	Changed                             chan struct{} // something is new
	jobs, pods, clusters, clusterEvents cache.Store
	podEvents                           cache.Store   // of whomever's pods
	gangs, gangEvents                   []cache.Store // of each admitter that has such an object
	name                                string
	apiHealth                           *api.Health
	host                                string

	mu      sync.Mutex
	broken  string // why the API server does not answer
	inQueue map[types.UID]admit.Held
	at      time.Time // since when
}

// NewCache begins to watch a cluster of whomever, and returns when all was listed once.
func NewCache(ctx context.Context, c *api.Client, name string) (*Cache, error) {
	selector, err := podSelector(ctx, c, name)
	if err != nil {
		return nil, err
	}
	return newCache(ctx, c, name, selector)
}

// NewOwnCache is NewCache for a cluster that this process has launched: Kubernetes need not be asked whose it is.
func NewOwnCache(ctx context.Context, c *api.Client, name string) (*Cache, error) {
	return newCache(ctx, c, name, ownSelector(name))
}

func newCache(ctx context.Context, c *api.Client, name, podSelector string) (*Cache, error) {
	m := &Cache{Changed: make(chan struct{}, 1), name: name, apiHealth: c.Health, host: c.Config.Host}
	ours := func(o *metav1.ListOptions) { o.LabelSelector = ownSelector(name) }
	core, batch := c.Core.CoreV1().RESTClient(), c.Core.BatchV1().RESTClient()
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
	m.jobs = follow(cache.NewFilteredListWatchFromClient(batch, "jobs", c.Namespace, ours), &batchv1.Job{}, "jobs.batch")
	m.pods = follow(cache.NewFilteredListWatchFromClient(core, "pods", c.Namespace, func(o *metav1.ListOptions) { o.LabelSelector = podSelector }), &corev1.Pod{}, "pods")
	m.clusters = follow(c.WatchOne(ctx, api.RayClusters, name), &unstructured.Unstructured{}, api.RayClusters.GroupResource().String())
	m.clusterEvents = follow(api.WatchEvents(core, c.Namespace, name), &corev1.Event{}, "events")
	m.podEvents = follow(api.WatchPodEvents(core, c.Namespace, usualEvents...), &corev1.Event{}, "events")
	for _, a := range c.Served.Admitters.Gangs() {
		resource, object := a.Info().Objects, a.Info().ObjectOf(name)
		m.gangs = append(m.gangs, follow(c.WatchOne(ctx, resource, object), &unstructured.Unstructured{}, resource.GroupResource().String()))
		m.gangEvents = append(m.gangEvents, follow(api.WatchEvents(core, c.Namespace, object), &corev1.Event{}, "events"))
	}
	if err := m.awaitSync(ctx, synced, failed); err != nil {
		return m, err
	}
	if len(c.Served.Admitters.Queuers()) > 0 {
		go m.followHeld(ctx, c)
	}
	return m, nil
}

// podSelector finds the pods: of ours also keeper and record, of others' clusters those that KubeRay labels.
func podSelector(ctx context.Context, c *api.Client, name string) (string, error) {
	rc, err := c.GetCluster(ctx, launcher.ID(name))
	if err != nil && !apierrors.IsNotFound(err) {
		return "", api.Explain(err, "get", api.RayClusters.GroupResource().String(), c)
	}
	if err == nil && rc.GetLabels()[objects.LabelManagedBy] != objects.ManagedBy {
		return objects.RayClusterLabel + "=" + name, nil
	}
	return ownSelector(name), nil
}

func ownSelector(name string) string { return objects.LabelName + "=" + name }

// awaitSync waits for the first lists. A refusal is final then; later ones are waited out.
func (m *Cache) awaitSync(ctx context.Context, synced []cache.InformerSynced, failed <-chan error) error {
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
				return api.Interrupted(ctx.Err(), m.name)
			}
			return nil
		}
	}
}

// onError notes that the API server cannot be watched now. Informers go on by themselves, with growing pauses.
func (m *Cache) onError(failed chan<- error, resource string, c *api.Client) cache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || ctx.Err() != nil {
			return
		}
		explained := api.Explain(err, "list", resource, c)
		select {
		case failed <- explained:
		default:
		}
		if !api.Retryable(err) && !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) {
			return // the usual end of a watch
		}
		m.mu.Lock()
		m.broken, m.at = explained.Error(), time.Now()
		m.mu.Unlock()
		m.notify()
	}
}

// Trouble returns why the API server does not answer; "" while it does. The next event that arrives clears it.
func (m *Cache) Trouble() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.at) > troubleFades {
		m.broken = ""
	}
	if silent := m.apiHealth.Trouble(); silent != "" {
		return "the Kubernetes at " + m.host + " does not answer: " + silent
	}
	return m.broken
}

// troubleFades is how long an error counts: an informer tries again within this time, and reports the error again.
const troubleFades = 35 * time.Second

func (m *Cache) notify() {
	select {
	case m.Changed <- struct{}{}:
	default:
	}
}

// Snapshot is everything as it is mirrored now.
func (m *Cache) Snapshot() *Snapshot {
	o := &Snapshot{Now: time.Now().UTC(), Pods: stored[corev1.Pod](m.pods)}
	for _, job := range stored[batchv1.Job](m.jobs) {
		switch {
		case job.Name == m.name && job.Labels[objects.LabelManagedBy] == objects.ManagedBy:
			o.Job = job
		case job.Name == objects.RecordName(m.name):
			o.Record = job
		}
	}
	for _, rc := range stored[rayv1.RayCluster](m.clusters) {
		o.Cluster = rc
	}
	o.events = slices.Concat(stored[corev1.Event](m.clusterEvents), stored[corev1.Event](m.podEvents))
	for i := range m.gangs {
		for _, g := range stored[unstructured.Unstructured](m.gangs[i]) {
			o.gang = g
		}
		o.events = slices.Concat(o.events, stored[corev1.Event](m.gangEvents[i]))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o.inQueue = m.inQueue
	return o
}

// stored are the objects of a store, as typed pointers.
func stored[T any](store cache.Store) (out []*T) {
	for _, object := range store.List() {
		if o, ok := object.(*T); ok {
			out = append(out, o)
		} else if o, ok := api.As[T](object); ok {
			out = append(out, o)
		}
	}
	return out
}
