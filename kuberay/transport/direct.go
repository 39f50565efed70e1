package transport

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/rayctl/rayctl/dashboardclient/proven"
)

// direct is for clients that run in a pod of the same Kubernetes: they reach the target by its Service's name.
type direct struct {
	Place
	address string
	dialer  proven.Dialer
}

// directTimeout is short: where a NetworkPolicy is in the way, there are other ways.
const directTimeout = 3 * time.Second

// direct returns nil where this process is in no pod, or in one of another Kubernetes, or may not reach the target. The same Kubernetes is
// one whose DNS gives the Service's name the very address that the pod has.
func newDirect(ctx context.Context, a API, p Place) *direct {
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return nil
	}
	pod, err := a.serving(ctx, p)
	if err != nil || pod.Status.PodIP == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	host := p.Service + "." + a.Namespace + ".svc"
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil || !slices.Contains(addresses, pod.Status.PodIP) {
		return nil
	}
	d := &direct{Place: p, address: net.JoinHostPort(host, strconv.Itoa(p.Port))}
	d.dialer.Timeout, d.dialer.KeepAlive = streamTimeout, 5*time.Second
	if d.Ready(ctx) != nil {
		return nil
	}
	return d
}

func (d *direct) Ready(ctx context.Context) error {
	conn, err := d.Dial(ctx)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (d *direct) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := d.dialer.DialContext(ctx, "tcp", d.address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", d.What, err)
	}
	return conn, nil
}

func (d *direct) Via() string { return "direct, " + d.address }
func (d *direct) Close()      {}
