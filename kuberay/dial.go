package kuberay

import (
	"cmp"
	"context"
	"net"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/kuberay/transport"
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
		return here.Endpoint(id)
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

// closeTransports closes the connections to a cluster that has ended.
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
	delete(l.heads, id)
}

// whyNot returns the error of a failed Dial: it distinguishes a cluster that has ended from one that is not ready yet.
func (l *Launcher) whyNot(ctx context.Context, c *api.Client, id launcher.ID, target launcher.Target, err error) error {
	if launcher.ExitCode(err) == runstate.CodePermission {
		return err
	}
	if _, getErr := c.GetCluster(ctx, id); apierrors.IsNotFound(getErr) {
		if job, jobErr := c.Job(ctx, string(id)); jobErr == nil && job == nil {
			l.closeTransports(id)
			return launcher.NotFound(id)
		}
	}
	return api.NotReady(string(id), string(target), err)
}

func (l *Launcher) setToken(id launcher.ID, token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens[id] = token
}

// token is the cluster's secret: ours, or that which KubeRay made for others' clusters; "" for those without.
func (l *Launcher) token(ctx context.Context, c *api.Client, id launcher.ID) (string, error) {
	l.mu.Lock()
	token := l.tokens[id]
	l.mu.Unlock()
	if token != "" {
		return token, nil
	}
	secret, err := c.Core.CoreV1().Secrets(c.Namespace).Get(ctx, objects.SecretName(string(id)), metav1.GetOptions{})
	switch {
	case err == nil:
		token = string(secret.Data[objects.TokenKey])
	case apierrors.IsNotFound(err):
		token, err = c.OthersToken(ctx, id)
	default:
		err = api.Explain(err, "get", "secrets", c)
	}
	if err == nil && token != "" {
		l.setToken(id, token)
	}
	return token, err
}

// DialNode connects to a port of a node's pod by a port-forward of its own.
func (l *Launcher) DialNode(ctx context.Context, id launcher.ID, node string, port int) (net.Conn, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	pod, err := observe.Node(ctx, c, id, node)
	if err != nil {
		return nil, err
	}
	return transport.DialPod(ctx, c.TransportAPI(), pod.Name, port)
}

// ReachNode begins a port-forward to a node's pod.
func (l *Launcher) ReachNode(ctx context.Context, id launcher.ID, node string) error {
	c, err := l.kube(ctx)
	if err != nil {
		return err
	}
	pod, err := observe.Node(ctx, c, id, node)
	if err != nil {
		return err
	}
	return transport.ReachPod(ctx, c.TransportAPI(), pod.Name)
}

// Exec runs a command in the Ray container of a node's pod, whose environment is that of `ray start`.
func (l *Launcher) Exec(ctx context.Context, id launcher.ID, e launcher.ExecRequest) (int, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return 0, err
	}
	if len(e.Command) == 0 {
		return 0, launcher.Fail(runstate.CodeUsage, nil, "give one after --", "there is no command to run")
	}
	pod, err := observe.Node(ctx, c, id, e.Node)
	if err != nil {
		return 0, err
	}
	return execInPod(ctx, c, pod, e)
}

// FindTools finds none: they are in the pods' image.
func (l *Launcher) FindTools(context.Context, launcher.ID) (string, error) { return "", nil }

// transportKey names a transport: one to each target of a cluster, shared by all who dial it.
type transportKey struct {
	id     launcher.ID
	target launcher.Target
}

// place returns where the target listens: the keeper's address is fixed, a head's is in its RayCluster.
func (l *Launcher) place(ctx context.Context, c *api.Client, id launcher.ID, target launcher.Target) (transport.Place, error) {
	name := string(id)
	if target == launcher.Keeper {
		return transport.Place{What: "the keeper of " + name, Selector: objects.KeeperSelector(name), Service: objects.ServiceName(name), Port: objects.KeeperPort}, nil
	}
	l.mu.Lock()
	head, launched := l.heads[id]
	l.mu.Unlock()
	if launched {
		return head, nil
	}
	rc, err := c.RayCluster(ctx, id)
	if err != nil {
		return transport.Place{}, err
	}
	return headOf(rc), nil
}

func headOf(rc *rayv1.RayCluster) transport.Place {
	return transport.Place{
		What: "the head of " + rc.Name, Selector: objects.HeadSelector(rc.Name), Port: objects.PortParam(&rc.Spec, "dashboard-port", objects.DashboardPort),
		Service: cmp.Or(rc.Status.Head.ServiceName, objects.HeadServiceName(rc.Name, &rc.Spec)),
	}
}

// keepHead notes where the head of a cluster listens that this client launched.
func (l *Launcher) keepHead(rc *rayv1.RayCluster) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heads[launcher.ID(rc.Name)] = headOf(rc)
}

// transport returns the way to a target: the one that is in use, or the first that works of those there are.
func (l *Launcher) transport(ctx context.Context, c *api.Client, id launcher.ID, target launcher.Target) (transport.Transport, error) {
	w := transportKey{id, target}
	l.mu.Lock()
	used := l.transports[w]
	l.mu.Unlock()
	if used != nil {
		return used, used.Ready(ctx)
	}
	p, err := l.place(ctx, c, id, target)
	if err != nil {
		return nil, err
	}
	r, err := transport.Choose(ctx, c.TransportAPI(), p)
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
