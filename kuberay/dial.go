package kuberay

import (
	"context"
	"net"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
)

// Dial reaches the keeper's pod or the head's by port-forward. The dashboards of Ray clusters that others made are reached too.
func (l *Launcher) Dial(ctx context.Context, id launcher.ID, target launcher.Target) (*launcher.Endpoint, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	token, err := l.token(ctx, c, id)
	if err != nil {
		return nil, err
	}
	t := l.tunnel(c, id, target)
	if _, err := t.open(ctx); err != nil {
		return nil, l.whyNot(ctx, c, id, target, err)
	}
	return &launcher.Endpoint{
		URL: "http://" + string(target), Token: token, TokenHeader: "Authorization", Via: t.via(),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return t.dial(ctx) },
	}, nil
}

// tunnel is the one way to a target.
func (l *Launcher) tunnel(c *client, id launcher.ID, target launcher.Target) *tunnel {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := way{id, target}
	if t := l.ways[w]; t != nil {
		return t
	}
	t := &tunnel{c: c, selector: keeperSelector(string(id)), port: keeperPort, what: "the keeper of " + string(id)}
	if target == launcher.Dashboard {
		t.selector, t.port, t.what = headSelector(string(id)), dashboardPort, "the head of "+string(id)
	}
	l.ways[w] = t
	return t
}

func headSelector(name string) string {
	return rayClusterLabel + "=" + name + "," + rayNodeTypeLabel + "=" + headNodeType
}

// forgetWays closes the tunnels of a cluster that is gone.
func (l *Launcher) forgetWays(id launcher.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w, t := range l.ways {
		if w.id == id {
			go t.close()
			delete(l.ways, w)
		}
	}
	delete(l.tokens, id)
}

// whyNot tells a cluster that is gone from one that is not there yet.
func (l *Launcher) whyNot(ctx context.Context, c *client, id launcher.ID, target launcher.Target, err error) error {
	if launcher.ExitCode(err) == launcher.CodePermission {
		return err
	}
	_, getErr := c.dynamic.Resource(rayClusters).Namespace(c.namespace).Get(ctx, string(id), metav1.GetOptions{})
	if apierrors.IsNotFound(getErr) {
		if job, jobErr := c.job(ctx, string(id)); jobErr == nil && job == nil {
			l.forgetWays(id)
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
	var secret *corev1.Secret
	var err error
	for _, name := range []string{secretName(string(id)), string(id)} {
		secret, err = c.core.CoreV1().Secrets(c.namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			l.setToken(id, string(secret.Data[tokenKey]))
			return string(secret.Data[tokenKey]), nil
		}
		if !apierrors.IsNotFound(err) {
			return "", explain(err, "get", "secrets", c)
		}
	}
	if _, err := c.dynamic.Resource(rayClusters).Namespace(c.namespace).Get(ctx, string(id), metav1.GetOptions{}); err != nil {
		if apierrors.IsNotFound(err) {
			return "", launcher.NotFound(id)
		}
		return "", explain(err, "get", rayClusters.GroupResource().String(), c)
	}
	return "", nil
}
