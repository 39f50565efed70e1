package raytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The range is the keeper's: above the ports of Ray's workers, below those that kernels give to connections.
const firstPort, lastPort = 20000, 31999

// freePorts returns ports that nobody listens on and that no other test has chosen, all different. As the keeper does (templates/keeper_ports.py),
// it claims them with abstract sockets, which live as long as this process: Ray listens some seconds later.
func freePorts(ctx context.Context, n int) ([]string, error) {
	var ports []string
	for _, offset := range rand.Perm(lastPort - firstPort + 1) {
		port := strconv.Itoa(firstPort + offset)
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", ":"+port)
		if err != nil {
			continue
		}
		_ = listener.Close()
		if !claim(ctx, port) {
			continue
		}
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports between %d and %d", n, firstPort, lastPort)
}

// claims keeps the sockets from being collected, and closed with that.
var claims struct {
	sync.Mutex
	held []net.Listener
}

// claim reports whether the port is this process's from now on.
func claim(ctx context.Context, port string) bool {
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", "@rayctl-port-"+port)
	if err != nil {
		return false
	}
	claims.Lock()
	defer claims.Unlock()
	claims.held = append(claims.held, listener)
	return true
}
