package raytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The range is the keeper's: above the ports of Ray's workers, below the kernels' ports for connections.
const firstPort, lastPort = 20000, 31999

// freePorts returns different ports that are neither in use nor chosen by another test. Like the keeper (keeper/rayctl_keeper/host/ports.py)
// it claims them with abstract sockets until the end of this process, because Ray listens only some seconds later.
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

// claims keeps the sockets from being garbage collected, which would close them.
var claims struct {
	sync.Mutex
	held []net.Listener
}

// claim reports whether this process now owns the port.
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
