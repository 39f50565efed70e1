// Package transport leads to the servers of a cluster's pods: straight, by port-forward, or by the API server's proxy of Services.
package transport

import (
	"context"
	"errors"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Transport is one way to a target of a cluster. There are three: straight to the pod from inside the same Kubernetes, port-forward, and the
// API server's proxy of Services.
type Transport interface {
	// Ready connects if there is no connection; the error is why it cannot.
	Ready(ctx context.Context) error
	// Dial opens one connection to the target's port, after a break to the pod that serves it now.
	Dial(ctx context.Context) (net.Conn, error)
	// Via describes the connection for -v.
	Via() string
	// Close ends it.
	Close()
}

// Place is where a target is found in Kubernetes.
type Place struct {
	What     string // for messages
	Selector string // of its pod
	Service  string
	Port     int
}

// API is the API server, as the user reaches it, and one namespace there.
type API struct {
	Namespace string
	Config    *rest.Config
	Core      kubernetes.Interface
	// Explain turns an error of the API server into one for the user.
	Explain func(err error, verb, resource string) error
}

// RoleHint is the next step where a permission is missing.
const RoleHint = "ask for the Role that `rayctl help kuberay` shows"

// Choose tries the ways from the shortest to the one that needs the least.
func Choose(ctx context.Context, a API, p Place) (Transport, error) {
	if d := newDirect(ctx, a, p); d != nil {
		return d, nil
	}
	t := &tunnel{api: a, Place: p}
	err := t.Ready(ctx)
	if err == nil {
		return t, nil
	}
	t.Close()
	if !isForbidden(err) {
		return nil, err
	}
	x, proxyErr := newProxied(a, p)
	if proxyErr != nil {
		return nil, proxyErr
	}
	if proxyErr = x.Ready(ctx); proxyErr == nil {
		return x, nil
	}
	x.Close()
	if isForbidden(proxyErr) {
		return nil, launcher.Fail(runstate.CodePermission, err, RoleHint,
			"not permitted to reach %s: neither get pods/portforward (websocket), create pods/portforward (SPDY) nor get services/proxy is allowed in namespace %s", p.What, a.Namespace)
	}
	return nil, proxyErr
}

func isForbidden(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.IsForbidden(err)
}
