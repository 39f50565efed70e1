package proven

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// resolveLimit bounds the resolution of a name whose address is known.
const resolveLimit = 2 * time.Second

// Dialer is a net.Dialer that uses the last working address when a name cannot be resolved. It is safe for concurrent use.
type Dialer struct {
	net.Dialer
	mutex sync.Mutex
	known map[string]string // "name:port": "address:port"
}

// DialContext connects to "host:port". It resolves the name each time and uses the last address only if that fails. Errors are those of net.Dialer.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d.mutex.Lock()
	known := d.known[address]
	d.mutex.Unlock()
	if known != "" && !d.resolves(ctx, address) {
		return d.Dialer.DialContext(ctx, network, known)
	}
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err == nil {
		d.remember(address, conn.RemoteAddr().String())
	}
	return conn, err
}

// resolves reports whether the name service resolves the host. "No such host" counts as a failure like any other, because a name service that was just
// started gives this answer for every name.
func (d *Dialer) resolves(ctx context.Context, address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true // net.Dialer returns the error
	}
	ctx, cancel := context.WithTimeout(ctx, resolveLimit)
	defer cancel()
	resolver := d.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	_, err = resolver.LookupHost(ctx, host)
	var failure *net.DNSError
	return !errors.As(err, &failure)
}

func (d *Dialer) remember(address, worked string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.known == nil {
		d.known = map[string]string{}
	}
	d.known[address] = worked
}
