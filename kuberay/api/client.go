// Package api is the API server of Kubernetes as the user reaches it, in one namespace: its clients, what a launch creates, reads, changes and
// deletes there, requests that are made again, and errors in the user's words.
package api

import (
	"context"
	"fmt"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/manifest"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/transport"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Resources of the objects that a launch creates.
var (
	RayClusters = rayv1.GroupVersion.WithResource("rayclusters") // they have no typed client here
	Jobs        = batchv1.SchemeGroupVersion.WithResource("jobs")
	Secrets     = corev1.SchemeGroupVersion.WithResource("secrets")
	Services    = corev1.SchemeGroupVersion.WithResource("services")
)

// Client is one namespace of one Kubernetes.
type Client struct {
	Namespace string
	Config    *rest.Config
	Core      kubernetes.Interface
	Dynamic   dynamic.Interface
	Served    Served
	Health    *Health
	dryRun    []string // of what create sends; empty: it is meant
}

// Served is what the API server has.
type Served struct {
	Ray       bool
	Admitters admit.Served
}

// Limits of our requests: a launch is some ten requests at once.
const (
	requestsPerSecond = 50
	requestBurst      = 100
)

// New reads the configuration as kubectl does, which takes what is empty; it does not connect.
func New(kubeconfig, kubeContext, namespace string) (*Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: kubeContext}
	overrides.Context.Namespace = namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) { // whose text is about a variable that nobody sets
		return nil, launcher.Fail(runstate.CodeConfig, err, "set kuberay.kubeconfig or KUBECONFIG", "no Kubernetes is configured: there is no kubeconfig, or it is empty")
	}
	if err != nil {
		return nil, launcher.Fail(runstate.CodeConfig, err, "set kuberay.kubeconfig or KUBECONFIG, and kuberay.context", "no Kubernetes is configured: %v", err)
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, launcher.Fail(runstate.CodeConfig, err, "set kuberay.namespace", "the namespace is not clear: %v", err)
	}
	config.QPS, config.Burst, config.UserAgent = requestsPerSecond, requestBurst, objects.ManagedBy
	out := &Client{Namespace: namespace, Config: config, Health: &Health{}}
	watched := rest.CopyConfig(config)
	watched.Wrap(out.Health.wrap)
	watched.Wrap(wholeAnswers)
	typed := rest.CopyConfig(watched)
	// Kubernetes' own types are half the work to read in this form; others have none but JSON.
	typed.ContentType, typed.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	if out.Core, err = kubernetes.NewForConfig(typed); err == nil {
		out.Dynamic, err = dynamic.NewForConfig(watched)
	}
	if err != nil {
		return nil, launcher.Fail(runstate.CodeConfig, err, "check the kubeconfig", "the configuration of Kubernetes cannot be used: %v", err)
	}
	return out, nil
}

// discoverTimeout bounds the first request: after it Discover reports that the API server does not answer.
const discoverTimeout = 20 * time.Second

// Discover reads which API groups the API server has, in one request where it has aggregated discovery (1.27 and later).
func (c *Client) Discover(ctx context.Context) error {
	config := rest.CopyConfig(c.Config)
	config.Timeout = discoverTimeout
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return launcher.Fail(runstate.CodeConfig, err, "check the kubeconfig", "the configuration of Kubernetes cannot be used: %v", err)
	}
	type answer struct {
		groups *metav1.APIGroupList
		err    error
	}
	done := make(chan answer, 1)
	go func() { // discovery takes no context
		groups, err := d.ServerGroups()
		done <- answer{groups, err}
	}()
	select {
	case <-ctx.Done():
		return launcher.Fail(runstate.CodeInterrupted, ctx.Err(), "", "interrupted while asking Kubernetes")
	case a := <-done:
		if a.err != nil {
			return Explain(a.err, "get", "the API groups", c)
		}
		for _, g := range a.groups.Groups {
			for _, v := range g.Versions {
				c.Served.Ray = c.Served.Ray || v.GroupVersion == rayv1.GroupVersion.String()
			}
		}
		c.Served.Admitters = admit.ServedBy(a.groups)
		return nil
	}
}

// Create sends an object with strict field validation: a server that does not know a field must not drop it in silence.
func (c *Client) Create(ctx context.Context, r schema.GroupVersionResource, object runtime.Object) (*unstructured.Unstructured, error) {
	return c.createWith(ctx, r, object, nil)
}

// createWith is Create with fields that the object's type does not have.
func (c *Client) createWith(ctx context.Context, r schema.GroupVersionResource, object runtime.Object, more []manifest.NewerField) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", r.Resource, err)
	}
	unstructured.RemoveNestedField(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	manifest.SetNewer(content, more)
	out, err := c.Dynamic.Resource(r).Namespace(c.Namespace).Create(ctx, &unstructured.Unstructured{Object: content},
		metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, FieldManager: objects.ManagedBy, DryRun: c.dryRun})
	if err != nil {
		return nil, Explain(err, "create", r.GroupResource().String(), c)
	}
	return out, nil
}

// CreateOnly is create for objects whose server-side form does not matter.
func (c *Client) CreateOnly(ctx context.Context, r schema.GroupVersionResource, object runtime.Object) error {
	_, err := c.Create(ctx, r, object)
	return err
}

// As converts what the dynamic client delivers.
func As[T any](object any) (*T, bool) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, false
	}
	out := new(T)
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out)
	return out, err == nil
}

// Interrupted is the error of a call whose context ended.
func Interrupted(err error, name string) error {
	return launcher.Fail(runstate.CodeInterrupted, err, "", "interrupted while working on %s", name)
}

// TransportAPI is what package transport needs of the client.
func (c *Client) TransportAPI() transport.API {
	return transport.API{Namespace: c.Namespace, Config: c.Config, Core: c.Core, Explain: func(err error, verb, resource string) error {
		return Explain(err, verb, resource, c)
	}}
}
