package kuberay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// transport is one way to a target of a cluster. There are three: straight to the pod from inside the same Kubernetes, port-forward, and the
// API server's proxy of Services.
type transport interface {
	// ready connects, if it is not connected, and says why it cannot.
	ready(ctx context.Context) error
	// dial opens one connection to the target's port, after a break to the pod that serves it now.
	dial(ctx context.Context) (net.Conn, error)
	// via says how, for -v.
	via() string
	close()
}

// transportKey names a transport: one to each target of a cluster, shared by all who dial it.
type transportKey struct {
	id     launcher.ID
	target launcher.Target
}

// place is where a target is found in Kubernetes.
type place struct {
	what     string // for messages
	selector string // of its pod
	service  string
	port     int
}

// place of the keeper is fixed; those of heads are what their RayCluster says.
func (c *client) place(ctx context.Context, id launcher.ID, target launcher.Target) (place, error) {
	name := string(id)
	if target == launcher.Keeper {
		return place{what: "the keeper of " + name, selector: keeperSelector(name), service: serviceName(name), port: keeperPort}, nil
	}
	rc, err := c.cluster(ctx, id)
	if err != nil {
		return place{}, err
	}
	return place{
		what: "the head of " + name, selector: headSelector(name), port: portParam(&rc.Spec, "dashboard-port", dashboardPort),
		service: cmp.Or(rc.Status.Head.ServiceName, headServiceName(name, &rc.Spec)),
	}, nil
}

// cluster reads a RayCluster, whoever made it.
func (c *client) cluster(ctx context.Context, id launcher.ID) (*rayv1.RayCluster, error) {
	o, err := c.getCluster(ctx, id)
	if apierrors.IsNotFound(err) {
		return nil, launcher.NotFound(id)
	}
	if err != nil {
		return nil, explain(err, "get", rayClusters.GroupResource().String(), c)
	}
	rc, ok := as[rayv1.RayCluster](o)
	if !ok {
		return nil, fmt.Errorf("the RayCluster %s is not as ray.io/v1 has it", id)
	}
	return rc, nil
}

// transport returns the way to a target: the one that is in use, or the first that works of those there are.
func (l *Launcher) transport(ctx context.Context, c *client, id launcher.ID, target launcher.Target) (transport, error) {
	w := transportKey{id, target}
	l.mu.Lock()
	used := l.transports[w]
	l.mu.Unlock()
	if used != nil {
		return used, used.ready(ctx)
	}
	p, err := c.place(ctx, id, target)
	if err != nil {
		return nil, err
	}
	r, err := c.choose(ctx, p)
	if err != nil {
		return nil, err
	}
	l.log.Debug("chose a way", "target", p.what, "via", r.via())
	l.mu.Lock()
	defer l.mu.Unlock()
	if used := l.transports[w]; used != nil { // somebody else was faster
		go r.close()
		return used, nil
	}
	l.transports[w] = r
	return r, nil
}

// choose tries the ways from the shortest to the one that needs the least.
func (c *client) choose(ctx context.Context, p place) (transport, error) {
	if d := c.direct(ctx, p); d != nil {
		return d, nil
	}
	t := &tunnel{c: c, place: p}
	err := t.ready(ctx)
	if err == nil {
		return t, nil
	}
	t.close()
	if !isForbidden(err) {
		return nil, err
	}
	x, proxyErr := newProxied(c, p)
	if proxyErr != nil {
		return nil, proxyErr
	}
	if proxyErr = x.ready(ctx); proxyErr == nil {
		return x, nil
	}
	x.close()
	if isForbidden(proxyErr) {
		return nil, launcher.Fail(runstate.CodePermission, err, roleHint,
			"not permitted to reach %s: neither get pods/portforward (websocket), create pods/portforward (SPDY) nor get services/proxy is allowed in namespace %s", p.what, c.namespace)
	}
	return nil, proxyErr
}

func isForbidden(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.IsForbidden(err)
}
