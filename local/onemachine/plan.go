package onemachine

import (
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
	"github.com/rayctl/rayctl/local/rayenv"
)

// loopback is where all nodes of this machine are.
const loopback = "127.0.0.1"

// nodePlan has everything from which the orders are made.
type nodePlan struct {
	Spec       *spec.ClusterSpec // prepared
	Launcher   string
	Start      keeper.Start
	Env        rayenv.Env
	Machine    machine
	OutputDir  string // of drivers, where the file does not name one
	TempRoot   string
	Disconnect time.Duration
}

// Orders translates the cluster file for the keeper. It uses only the plan.
func (p nodePlan) Orders() *keeper.Orders {
	s := p.Spec
	p.Start.Early = s.Head.Early
	return &keeper.Orders{
		Version: keeper.Version, Name: s.Name, Attempt: 1, Launcher: p.Launcher, SpecHash: spec.Hash(s),
		Ray: keeper.RaySettings{
			Python: p.Env.Python, Version: p.Env.Version, Env: s.Env, Setup: s.Setup, TempRoot: p.TempRoot,
			FastStart: orders.FastStart(s),
		},
		Groups: p.groups(), Scaling: orders.Scaling(s),
		Start:  p.Start,
		Listen: loopback + ":0", Advertise: loopback, DashboardHost: loopback,
		WatchStdin: true,
		Job:        orders.Job(s, p.OutputDir, ""),
		OutputDir:  orders.OutputDir(s, p.OutputDir),
		Grace:      orders.Grace(s), Lifetime: orders.Lifetime(s, orders.Start, p.Disconnect), ShareDir: s.Job.ShareDir,
	}
}

// CheckReservation refuses a driver that fits on no node.
func (p nodePlan) CheckReservation() error { return orders.FitsGroups(p.Spec, p.groups()) }

// groups has the resources that each node is started with. All of it is Ray's own accounting: nodes of one machine are not fenced off.
func (p nodePlan) groups() []keeper.Group {
	var groups []keeper.Group
	for _, g := range p.Spec.NodeGroups() {
		if g.Max == 0 {
			continue
		}
		cpus, gpus := p.cpus(g), float64(g.GPUs)
		if !g.Tasks {
			cpus, gpus = 0, 0
		}
		memory := p.memory(g)
		store := p.objectStore(memory)
		if !g.ObjectStoreMemory.IsZero() {
			store = g.ObjectStoreMemory.Value()
		}
		group := orders.Group(g)
		group.CPUs, group.GPUs, group.Memory, group.ObjectStoreMemory = &cpus, &gpus, &memory, &store
		groups = append(groups, group)
	}
	return groups
}

// cpus of one node: the file's number, rounded up because Ray counts whole CPUs, or an equal share of the machine.
func (p nodePlan) cpus(g spec.NodeGroup) float64 {
	if g.CPUs > 0 {
		return math.Ceil(float64(g.CPUs))
	}
	workers := 0
	for _, other := range p.Spec.NodeGroups() {
		if other.Tasks {
			workers += other.Max
		}
	}
	return float64(max(1, p.Machine.CPUs/max(1, workers)))
}

// rayShare is the part of a machine's memory that Ray counts as its own by default.
const rayShare = 0.7

func (p nodePlan) memory(g spec.NodeGroup) int64 {
	if !g.Memory.IsZero() {
		return g.Memory.Value()
	}
	return int64(float64(p.Machine.Memory) * rayShare / float64(p.nodes()))
}

// Bounds of the object store of one node, in bytes. Ray refuses less than 75 MiB.
const (
	storeShare   = 0.3 // of memory, as Ray's default
	storeLargest = 2 << 30
	storeLeast   = 80 << 20
	shmShare     = 0.8 // of what is free in /dev/shm, for all nodes together
)

// objectStore limits the stores of all nodes together, because the user's other programs also need this machine's memory.
func (p nodePlan) objectStore(memory int64) int64 {
	n := float64(p.nodes())
	store := min(float64(memory)*storeShare, storeLargest/n)
	if p.Machine.Shm > 0 {
		store = min(store, float64(p.Machine.Shm)*shmShare/n)
	}
	return int64(max(store, storeLeast))
}

func (p nodePlan) nodes() int { return max(1, p.Spec.MostNodes()) }

// Ray makes sockets of up to 64 bytes below a node's directory, whose own name and the t in it take 12, and AF_UNIX allows 104 bytes on macOS.
const longestTempRoot = 104 - 64 - 12

// tempRoot chooses where nodes have their temporary directories: local.tmpDir, else TMPDIR if it is short enough, else /tmp.
func tempRoot(s *spec.ClusterSpec) (string, error) {
	if localspec.Of(s) != nil && localspec.Of(s).TmpDir != "" {
		dir := localspec.Of(s).TmpDir
		if len(dir) > longestTempRoot || !filepath.IsAbs(dir) {
			return "", launcher.Fail(runstate.CodeSpec, nil, "choose a shorter one, such as /tmp, or leave it out",
				"local.tmpDir %q must be an absolute path of at most %d bytes, because Ray's sockets are below it", dir, longestTempRoot)
		}
		return dir, nil
	}
	if dir := os.Getenv("TMPDIR"); filepath.IsAbs(dir) && len(dir) <= longestTempRoot && isDir(dir) {
		return filepath.Clean(dir), nil
	}
	return "/tmp", nil
}

// isDir reports whether a directory is there.
func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
