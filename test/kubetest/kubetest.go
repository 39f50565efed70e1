// Package kubetest gives tests a real Kubernetes with the real KubeRay operator and Volcano, with real Ray in its pods, all as
// plain processes of this machine (see test/kubetest/bed).
//
// There is one testbed to a machine. The first test that calls Start starts it, in some 20 s once everything is built. It
// stays for the next tests, in this and other processes, and ends by itself when no test process has used it for
// two minutes. One process at a time uses it, from its first Start to its end: others wait. `make kubernetes` leaves
// one running for use by hand, `go run ./test/kubetest/cmd run -- COMMAND` removes it once COMMAND has ended.
package kubetest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rayctl/rayctl/test/kubetest/bed"
	"github.com/rayctl/rayctl/test/kubetest/build"
	"github.com/rayctl/rayctl/test/needs"
)

// Options are a test's requirements for the testbed. Start changes a running one to fit: this costs seconds, and pods continue
// to run, but other Versions or CPUs start it anew. Tests with different options must not run in parallel.
type Options struct {
	// BatchScheduler runs the operator with --batch-scheduler=volcano.
	BatchScheduler bool
	// OperatorFlags are further flags of the operator.
	OperatorFlags []string
	// NoVolcano removes Volcano and its CRDs.
	NoVolcano bool
	// CPUs and GPUs reported by the real node, independent of the machine. The GPUs have no devices. 0: 16 CPUs, no GPUs.
	CPUs, GPUs int
	// Simulated nodes by KWOK; pods go there only with the node selector type=kwok and a toleration for bed.SimulatedTaint.
	Simulated bed.Simulated
	// Python is the interpreter of the environment for the image rayproject/ray:2.60.0; empty: build.Python. Another
	// environment than that of the last test means a new image: a minute, and a gigabyte of cache.
	Python string
	// NoRay leaves out the image rayproject/ray:2.60.0, unless it exists already.
	NoRay bool
	// Versions of everything; zero: those named by RAYCTL_TEST_KUBE, see build.Chosen.
	Versions build.Versions
}

// Cluster is the running testbed.
type Cluster struct {
	// Kubeconfig of the administrator (group system:masters), and REST, the same as a client's configuration.
	Kubeconfig string
	REST       *rest.Config
	// Clients of the administrator, without client-side throttling.
	Core    kubernetes.Interface
	Dynamic dynamic.Interface

	bed *bed.Bed
}

// startTimeout bounds the start of a built testbed, including the import of an image on a crowded machine.
const startTimeout = 8 * time.Minute

// held is this process's use of the testbed.
var held struct {
	sync.Mutex
	// unlock is never called: the next process may have the testbed when this process has ended.
	unlock func()
}

// Start returns the machine's testbed when it works with opts. It builds what is not cached yet: that takes a quarter
// of an hour, longer than go test's own limit, so `go run ./test/kubetest/cmd build` comes first.
func Start(t testing.TB, opts Options) *Cluster {
	t.Helper()
	needs.RealSystem(t)
	needs.Root(t)
	needs.Program(t, "ip", "iproute2")
	needs.Program(t, "dpkg-deb", "dpkg")
	b, err := bed.Open(t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	config := opts.config(t)
	held.Lock()
	defer held.Unlock()
	if held.unlock == nil {
		if held.unlock, err = b.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := build.All(t.Context(), config.Versions, config.Simulated.Nodes > 0); err != nil {
		t.Fatalf("building the testbed: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := b.Up(ctx, config); err != nil {
		t.Fatal(err)
	}
	if err := b.SpawnReaper(ctx); err != nil {
		t.Fatal(err)
	}
	return connect(t, b)
}

func (o Options) config(t testing.TB) bed.Config {
	config := bed.Config{
		Versions: o.Versions, CPUs: o.CPUs, GPUs: o.GPUs, Volcano: !o.NoVolcano, Simulated: o.Simulated,
		OperatorFlags: slices.Clone(o.OperatorFlags),
	}
	if config.Versions == (build.Versions{}) {
		var err error
		if config.Versions, err = build.Chosen(); err != nil {
			t.Fatal(err)
		}
	}
	if config.CPUs == 0 {
		config.CPUs = bed.DefaultCPUs
	}
	if o.BatchScheduler {
		config.OperatorFlags = append(config.OperatorFlags, bed.BatchSchedulerFlag)
	}
	if config.Python = o.Python; config.Python == "" && !o.NoRay {
		var err error
		if config.Python, err = build.Python(t.Context(), t.Logf); err != nil {
			t.Fatal(err)
		}
	}
	return config
}

func connect(t testing.TB, b *bed.Bed) *Cluster {
	t.Helper()
	c := &Cluster{bed: b, Kubeconfig: b.Kubeconfig()}
	var err error
	if c.REST, err = b.RESTConfig(); err != nil {
		t.Fatal(err)
	}
	if c.Core, err = kubernetes.NewForConfig(c.REST); err != nil {
		t.Fatal(err)
	}
	if c.Dynamic, err = dynamic.NewForConfig(c.REST); err != nil {
		t.Fatal(err)
	}
	return c
}

// Samples is the directory of KubeRay's sample manifests. The Ray image has their names.
func (c *Cluster) Samples() string { return c.bed.Programs().OperatorSamples }

// NodeIP is the address of the real node and of the API server, which pods reach too.
func (c *Cluster) NodeIP() string {
	host, _, _ := strings.Cut(strings.TrimPrefix(c.REST.Host, "https://"), ":")
	return host
}

// Log is the log file of a part.
func (c *Cluster) Log(part bed.Part) string { return c.bed.LogFile(part) }

// Await repeats check until it succeeds, with a limit for slow machines, and otherwise fails the test with the last error.
func Await(t testing.TB, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := bed.Until(ctx, check); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// patience is for a machine with thirty processes to each core, where Ray itself gives up and its container restarts.
const patience = 5 * time.Minute
