package api

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/rayctl/rayctl/launcher"
)

// AwaitPods watches pods from the beginning until the condition holds.
func (c *Client) AwaitPods(ctx context.Context, selector string, cond watchtools.ConditionFunc) error {
	// An informer without the permission to list tries for ever and reports no error.
	if _, err := c.Core.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: 1}); err != nil {
		return Explain(err, "list", "pods", c)
	}
	lw := cache.NewFilteredListWatchFromClient(c.Core.CoreV1().RESTClient(), "pods", c.Namespace, func(o *metav1.ListOptions) { o.LabelSelector = selector })
	_, err := watchtools.UntilWithSync(ctx, lw, &corev1.Pod{}, nil, cond)
	return err
}

// AwaitGone waits until a Job that is being deleted has vanished.
func (c *Client) AwaitGone(ctx context.Context, name string) error {
	lw := cache.NewListWatchFromClient(c.Core.BatchV1().RESTClient(), "jobs", c.Namespace, fields.OneTermEqualSelector("metadata.name", name))
	gone := func(store cache.Store) (bool, error) { return len(store.ListKeys()) == 0, nil }
	_, err := watchtools.UntilWithSync(ctx, lw, nil, gone, func(event watch.Event) (bool, error) { return event.Type == watch.Deleted, nil })
	return Explain(err, "watch", "jobs.batch", c)
}

// AwaitDeleted waits until a RayCluster, which was there, is deleted or about to be.
func (c *Client) AwaitDeleted(ctx context.Context, id launcher.ID) error {
	gone := func(store cache.Store) (bool, error) { return len(store.ListKeys()) == 0, nil }
	_, err := watchtools.UntilWithSync(ctx, c.WatchOne(ctx, RayClusters, string(id)), &unstructured.Unstructured{}, gone, func(event watch.Event) (bool, error) {
		rc, is := event.Object.(*unstructured.Unstructured)
		return event.Type == watch.Deleted || is && rc.GetDeletionTimestamp() != nil, nil
	})
	return Explain(err, "watch", RayClusters.GroupResource().String(), c)
}

// WatchEvents watches the events of an object.
func WatchEvents(client rest.Interface, namespace, object string) cache.ListerWatcher {
	return cache.NewListWatchFromClient(client, "events", namespace, fields.OneTermEqualSelector("involvedObject.name", object))
}

// WatchPodEvents watches PodEvents of a namespace.
func WatchPodEvents(client rest.Interface, namespace string, without ...string) cache.ListerWatcher {
	return cache.NewListWatchFromClient(client, "events", namespace, PodEvents(without...))
}

// PodEvents are the events of type Normal of all pods of a namespace, without some reasons: nothing but the reason distinguishes those of a cluster's
// pods, of which there may be thousands, from others.
func PodEvents(without ...string) fields.Selector {
	only := []fields.Selector{fields.OneTermEqualSelector("involvedObject.kind", "Pod"), fields.OneTermEqualSelector("type", corev1.EventTypeNormal)}
	for _, reason := range without {
		only = append(only, fields.OneTermNotEqualSelector("reason", reason))
	}
	return fields.AndSelectors(only...)
}

// Events reads events of the namespace.
func (c *Client) Events(ctx context.Context, selector fields.Selector) ([]corev1.Event, error) {
	list, err := c.Core.CoreV1().Events(c.Namespace).List(ctx, metav1.ListOptions{FieldSelector: selector.String()})
	if err != nil {
		return nil, Explain(err, "list", "events", c)
	}
	return list.Items, nil
}

// WatchOne watches a single object of a resource without a typed client.
func (c *Client) WatchOne(_ context.Context, r schema.GroupVersionResource, name string) cache.ListerWatcher {
	only := fields.OneTermEqualSelector("metadata.name", name).String()
	resource := c.Dynamic.Resource(r).Namespace(c.Namespace)
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
