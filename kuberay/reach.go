package kuberay

import (
	"cmp"
	"context"
	"fmt"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rayctl/rayctl/kuberay/transport"
	"github.com/rayctl/rayctl/launcher"
)

// transportKey names a transport: one to each target of a cluster, shared by all who dial it.
type transportKey struct {
	id     launcher.ID
	target launcher.Target
}

// place of the keeper is fixed; those of heads are what their RayCluster says.
func (c *client) place(ctx context.Context, id launcher.ID, target launcher.Target) (transport.Place, error) {
	name := string(id)
	if target == launcher.Keeper {
		return transport.Place{What: "the keeper of " + name, Selector: keeperSelector(name), Service: serviceName(name), Port: keeperPort}, nil
	}
	rc, err := c.cluster(ctx, id)
	if err != nil {
		return transport.Place{}, err
	}
	return transport.Place{
		What: "the head of " + name, Selector: headSelector(name), Port: portParam(&rc.Spec, "dashboard-port", dashboardPort),
		Service: cmp.Or(rc.Status.Head.ServiceName, headServiceName(name, &rc.Spec)),
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
func (l *Launcher) transport(ctx context.Context, c *client, id launcher.ID, target launcher.Target) (transport.Transport, error) {
	w := transportKey{id, target}
	l.mu.Lock()
	used := l.transports[w]
	l.mu.Unlock()
	if used != nil {
		return used, used.Ready(ctx)
	}
	p, err := c.place(ctx, id, target)
	if err != nil {
		return nil, err
	}
	r, err := transport.Choose(ctx, c.api(), p)
	if err != nil {
		return nil, err
	}
	l.log.Debug("chose a way", "target", p.What, "via", r.Via())
	l.mu.Lock()
	defer l.mu.Unlock()
	if used := l.transports[w]; used != nil { // somebody else was faster
		go r.Close()
		return used, nil
	}
	l.transports[w] = r
	return r, nil
}

// api is what package transport needs of the client.
func (c *client) api() transport.API {
	return transport.API{Namespace: c.namespace, Config: c.config, Core: c.core, Explain: func(err error, verb, resource string) error {
		return explain(err, verb, resource, c)
	}}
}
