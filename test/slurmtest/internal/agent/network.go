//go:build linux

package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
)

func (a *agent) setupBridge() error {
	lines := []string{"link set lo up", "link add br0 type bridge", "addr add " + a.cfg.Address + "/16 dev br0", "link set br0 up"}
	if a.cfg.Storage != "" {
		lines = append(lines, "link add br1 type bridge", "addr add "+a.cfg.Storage+"/16 dev br1", "link set br1 up")
	}
	if err := a.ip(lines...); err != nil {
		return err
	}
	return a.serveDial()
}

func (a *agent) setupInterface() error {
	lines := []string{"link set lo up", "addr add " + a.cfg.Address + "/16 dev eth0", "link set eth0 up"}
	if a.cfg.Storage != "" {
		lines = append(lines, "addr add "+a.cfg.Storage+"/16 dev eth1", "link set eth1 up")
	}
	if a.cfg.Gateway != "" {
		lines = append(lines, "route add default via "+a.cfg.Gateway)
	}
	return a.ip(lines...)
}

func (a *agent) ip(lines ...string) error {
	batch, err := os.CreateTemp("/run", "ip-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(batch.Name()) }()
	defer func() { _ = batch.Close() }()
	if _, err := batch.WriteString(strings.Join(lines, "\n") + "\n"); err != nil {
		return err
	}
	out, code, err := a.children.run(exec.CommandContext(context.Background(), Prefix+"/daemons/ip", "-batch", batch.Name()))
	if err == nil && code != 0 {
		err = fmt.Errorf("ip %q: %s", lines, out)
	}
	return err
}

// join gives the network namespace of a process an interface on a network of the cluster, and returns the name of its other end.
func (a *agent) join(pid int, bridge, name, address string) (veth string, err error) {
	a.mu.Lock()
	a.made++
	veth = fmt.Sprintf("v%d", a.made)
	a.mu.Unlock()
	link := "/run/netns/" + veth // ip identifies namespaces by name; process ids here are not those of this /proc
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		return "", err
	}
	if err := os.Symlink(fmt.Sprintf("/proc/%d/ns/net", pid), link); err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(link) }()
	octets := net.ParseIP(address).To4()
	mac := fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", octets[0], octets[1], octets[2], octets[3]) // same after a power cycle: no stale ARP
	return veth, a.ip(fmt.Sprintf("link add %s type veth peer name %s address %s netns %s", veth, name, mac, veth),
		fmt.Sprintf("link set %s master %s up", veth, bridge))
}
