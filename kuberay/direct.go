package kuberay

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/rayctl/rayctl/dashboardclient/lastaddress"
)

// direct is for clients that run in a pod of the same Kubernetes: they reach the target by its Service's name.
type direct struct {
	place
	address string
	dialer  lastaddress.Dialer
}

// directTimeout is short: where a NetworkPolicy is in the way, there are other ways.
const directTimeout = 3 * time.Second

// direct returns nil where this process is in no pod, or in one of another Kubernetes, or may not reach the target. The same Kubernetes is
// one whose DNS gives the Service's name the very address that the pod has.
func (c *client) direct(ctx context.Context, p place) *direct {
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return nil
	}
	pod, err := c.serving(ctx, p)
	if err != nil || pod.Status.PodIP == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	host := p.service + "." + c.namespace + ".svc"
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil || !slices.Contains(addresses, pod.Status.PodIP) {
		return nil
	}
	d := &direct{place: p, address: net.JoinHostPort(host, strconv.Itoa(p.port))}
	d.dialer.Timeout, d.dialer.KeepAlive = streamTimeout, 5*time.Second
	if d.ready(ctx) != nil {
		return nil
	}
	return d
}

func (d *direct) ready(ctx context.Context) error {
	conn, err := d.dial(ctx)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (d *direct) dial(ctx context.Context) (net.Conn, error) {
	conn, err := d.dialer.DialContext(ctx, "tcp", d.address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", d.what, err)
	}
	return conn, nil
}

func (d *direct) via() string { return "direct, " + d.address }
func (d *direct) close()      {}
