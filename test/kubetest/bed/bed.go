// Package bed runs a whole Kubernetes with KubeRay and Volcano as plain processes of one machine: etcd, API server,
// controller-manager, scheduler, containerd and kubelet, CoreDNS, the KubeRay operator, Volcano, and KWOK for simulated nodes.
//
// There is one testbed to a machine. All of its files are in one short directory, its processes have that directory in
// their environment, and its pods are in one cgroup. So all of it can be found and ended, whoever started it.
package bed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/test/kubetest/build"
)

// Config is the configuration of a testbed.
type Config struct {
	// Versions of the programs; another set starts the testbed anew.
	Versions build.Versions
	// Python is an interpreter with Ray, whose environment becomes the image rayproject/ray. Empty: no Ray image.
	Python string
	// CPUs reported by the real node, independent of the machine.
	CPUs int
	// GPUs advertised by the real node (nvidia.com/gpu), without devices.
	GPUs int
	// OperatorFlags are more flags of the KubeRay operator, e.g. "--batch-scheduler=volcano".
	OperatorFlags []string
	// Volcano runs its scheduler and controllers and has its CRDs.
	Volcano bool
	// Simulated nodes, run by KWOK.
	Simulated Simulated
}

// Simulated are nodes without a machine: their pods are Running at once and do nothing. The nodes have the label type=kwok and
// the taint kwok.x-k8s.io/node=fake:NoSchedule.
type Simulated struct{ Nodes, CPUs, GPUs int }

// DefaultCPUs of the real node: enough for upstream's samples.
const DefaultCPUs = 16

// BatchSchedulerFlag makes the operator create PodGroups itself.
const BatchSchedulerFlag = "-batch-scheduler=volcano"

// Bed is the machine's testbed.
type Bed struct {
	// Dir has all of its files.
	Dir      string
	config   Config
	programs build.Programs
	subnet   int
	cache    string
	idle     time.Duration
	log      func(format string, args ...any)
}

// state is the content of Dir/state.json.
type state struct {
	Boot   string
	Subnet int
	Keep   bool
	Config Config
}

// Open gives access to the machine's testbed, running or not. log gets each step.
func Open(log func(format string, args ...any)) (*Bed, error) {
	dir := os.Getenv("RAYCTL_KUBE_DIR")
	if dir == "" {
		dir = filepath.Join("/tmp", "rk"+strconv.Itoa(os.Getuid()))
	}
	cache, err := build.CacheDir()
	if err != nil {
		return nil, err
	}
	b := &Bed{Dir: dir, cache: cache, idle: idleTime, log: log}
	if s, err := b.load(); err == nil {
		b.subnet, b.config = s.Subnet, s.Config
	}
	return b, nil
}

func (b *Bed) path(parts ...string) string {
	return filepath.Join(append([]string{b.Dir}, parts...)...)
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (b *Bed) Kubeconfig() string { return b.path("kubeconfig") }

// Programs are the paths of the programs; valid after Up.
func (b *Bed) Programs() build.Programs { return b.programs }

// Config is the last requested configuration.
func (b *Bed) Config() Config { return b.config }

// name is unique to the testbed on this machine: the name of its bridge, its CNI network and its cgroup.
func (b *Bed) name() string { return filepath.Base(b.Dir) }

// nodeIP is the address of the bridge, the node and the API server. No other process of the machine uses it, so fixed ports
// on it are free.
func (b *Bed) nodeIP() string { return fmt.Sprintf("10.201.%d.1", b.subnet) }

func (b *Bed) podSubnet() string     { return fmt.Sprintf("10.201.%d.0/24", b.subnet) }
func (b *Bed) serviceSubnet() string { return fmt.Sprintf("10.202.%d.0/24", b.subnet) }

// loopback is an address for ports that pods must not reach.
func (b *Bed) loopback() string { return fmt.Sprintf("127.201.%d.1", b.subnet) }

// server is the API server's URL.
func (b *Bed) server() string { return "https://" + net.JoinHostPort(b.nodeIP(), "6443") }

func (b *Bed) load() (state, error) {
	var s state
	text, err := os.ReadFile(b.path("state.json"))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("reading %s: %w", b.path("state.json"), err)
	}
	return s, nil
}

func (b *Bed) save(keep bool) error {
	text, err := json.Marshal(state{Boot: bootID(), Subnet: b.subnet, Keep: keep, Config: b.config})
	if err != nil {
		return err
	}
	tmp := b.path("state.json.part")
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, b.path("state.json"))
}

// Keep sets whether the testbed stays without users.
func (b *Bed) Keep(keep bool) error { return b.save(keep) }

// Kept reports the last setting of Keep.
func (b *Bed) Kept() bool {
	s, err := b.load()
	return err == nil && s.Keep
}

func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// Up brings the testbed to the given configuration: from nothing, or by starting, restarting and stopping the parts that differ. It
// returns when all of it works. The caller holds the lock.
func (b *Bed) Up(ctx context.Context, config Config) error {
	programs, err := build.All(ctx, config.Versions, config.Simulated.Nodes > 0)
	if err != nil {
		return err
	}
	b.programs = programs
	fresh := b.isFresh(config)
	if fresh {
		if err := b.Down(ctx); err != nil {
			return fmt.Errorf("removing an earlier testbed: %w", err)
		}
		if b.subnet, err = freeSubnet(); err != nil {
			return err
		}
	}
	b.config = config
	if err := b.prepare(ctx); err != nil {
		return errors.Join(err, b.Down(context.WithoutCancel(ctx)))
	}
	if fresh {
		if err := b.seed(ctx); err != nil {
			return err
		}
	}
	return b.bringUp(ctx, fresh)
}

// isFresh reports whether there is no testbed that can be changed to the configuration.
func (b *Bed) isFresh(config Config) bool {
	s, err := b.load()
	if err != nil {
		return true // an unreadable testbed can only be removed
	}
	b.subnet = s.Subnet
	if s.Boot != bootID() || s.Config.Versions != config.Versions || s.Config.CPUs != config.CPUs {
		return true
	}
	return b.find(etcd) == nil
}

// freeSubnet finds a network that no interface of the machine has.
func freeSubnet() (int, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return 0, fmt.Errorf("listing the machine's networks: %w", err)
	}
	for n := 10; n < 250; n++ {
		ip := net.IPv4(10, 201, byte(n), 1)
		if !slices.ContainsFunc(addrs, func(a net.Addr) bool {
			network, ok := a.(*net.IPNet)
			return ok && network.Contains(ip)
		}) {
			return n, nil
		}
	}
	return 0, errors.New("all networks 10.201.x.0/24 are taken on this machine")
}
