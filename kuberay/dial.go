package kuberay

import (
	"context"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Dial reaches the keeper's pod or the head's, by whichever way there is (see transport). The dashboards of Ray clusters that others made are
// reached too.
func (l *Launcher) Dial(ctx context.Context, id launcher.ID, target launcher.Target) (*launcher.Endpoint, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	if here := l.resident(id); here != nil && target == launcher.Keeper {
		return here.endpoint(id)
	}
	token, err := l.token(ctx, c, id)
	if err != nil {
		return nil, err
	}
	r, err := l.transport(ctx, c, id, target)
	if err != nil {
		return nil, l.whyNot(ctx, c, id, target, err)
	}
	return &launcher.Endpoint{
		URL: "http://" + string(target), Token: token, TokenHeader: "Authorization", Via: r.Via(),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return r.Dial(ctx) },
	}, nil
}

func headSelector(name string) string {
	return rayClusterLabel + "=" + name + "," + rayNodeTypeLabel + "=" + headNodeType
}

// closeTransports closes the ways to a cluster that is gone.
func (l *Launcher) closeTransports(id launcher.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w, r := range l.transports {
		if w.id == id {
			go r.Close()
			delete(l.transports, w)
		}
	}
	delete(l.tokens, id)
}

// whyNot tells a cluster that is gone from one that is not there yet.
func (l *Launcher) whyNot(ctx context.Context, c *client, id launcher.ID, target launcher.Target, err error) error {
	if launcher.ExitCode(err) == runstate.CodePermission {
		return err
	}
	if _, getErr := c.getCluster(ctx, id); apierrors.IsNotFound(getErr) {
		if job, jobErr := c.job(ctx, string(id)); jobErr == nil && job == nil {
			l.closeTransports(id)
			return launcher.NotFound(id)
		}
	}
	return notReady(string(id), string(target), err)
}

func (l *Launcher) setToken(id launcher.ID, token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens[id] = token
}

// token is the cluster's secret: ours, or that which KubeRay made for others' clusters; "" for those without.
func (l *Launcher) token(ctx context.Context, c *client, id launcher.ID) (string, error) {
	l.mu.Lock()
	token := l.tokens[id]
	l.mu.Unlock()
	if token != "" {
		return token, nil
	}
	secret, err := c.core.CoreV1().Secrets(c.namespace).Get(ctx, secretName(string(id)), metav1.GetOptions{})
	switch {
	case err == nil:
		token = string(secret.Data[tokenKey])
	case apierrors.IsNotFound(err):
		token, err = c.othersToken(ctx, id)
	default:
		err = explain(err, "get", "secrets", c)
	}
	if err == nil && token != "" {
		l.setToken(id, token)
	}
	return token, err
}

// othersToken is the token of a cluster that rayctl did not make; "" if it has none.
func (c *client) othersToken(ctx context.Context, id launcher.ID) (string, error) {
	rc, err := c.cluster(ctx, id)
	if err != nil {
		return "", err
	}
	source, err := tokenOf(&rc.Spec)
	if err != nil {
		return "", launcher.Fail(runstate.CodeUnreachable, err, "`rayctl port-forward "+string(id)+" 8265`, and --address with your own token in RAY_AUTH_TOKEN, reach it",
			"the RayCluster %s takes Kubernetes' own tokens, which rayctl does not send", id)
	}
	if source.ours && rc.Spec.AuthOptions != nil {
		source.secret, source.key = string(id), tokenKey // KubeRay made it
	}
	return c.foreignToken(ctx, source)
}

// getCluster reads a RayCluster as it is.
func (c *client) getCluster(ctx context.Context, id launcher.ID) (*unstructured.Unstructured, error) {
	return c.dynamic.Resource(rayClusters).Namespace(c.namespace).Get(ctx, string(id), metav1.GetOptions{})
}
