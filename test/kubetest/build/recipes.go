package build

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Programs are the paths of all programs and their files.
type Programs struct {
	Etcd, APIServer, ControllerManager, Scheduler, Kubelet, CoreDNS string
	Operator, OperatorCRDs, OperatorSamples                         string
	VolcanoScheduler, VolcanoControllers                            string
	VolcanoCRDs, VolcanoJobCRDs, VolcanoConfig                      string
	KWOK, Pause                                                     string
	Runtime                                                         Runtime
}

// All builds everything of one set of versions, or finds it in the cache; KWOK only on request.
func All(ctx context.Context, v Versions, kwok bool) (Programs, error) {
	modules := []Module{kubernetes(v.Kubernetes), volcano(v.Volcano, v.VolcanoAPIs), kubeRay(v.KubeRay), etcd(v.Etcd), coreDNS(v.CoreDNS)}
	if kwok {
		modules = append(modules, kwokModule(v.KWOK))
	}
	built, err := buildAll(ctx, modules)
	if err != nil {
		return Programs{}, err
	}
	p := Programs{
		Etcd:               built["etcd"].Program("etcd"),
		APIServer:          built["kubernetes"].Program("kube-apiserver"),
		ControllerManager:  built["kubernetes"].Program("kube-controller-manager"),
		Scheduler:          built["kubernetes"].Program("kube-scheduler"),
		Kubelet:            built["kubernetes"].Program("kubelet"),
		CoreDNS:            built["coredns"].Program("coredns"),
		Operator:           built["kuberay"].Program("kuberay-operator"),
		OperatorCRDs:       built["kuberay"].Share("crds"),
		OperatorSamples:    built["kuberay"].Share("samples"),
		VolcanoScheduler:   built["volcano"].Program("vc-scheduler"),
		VolcanoControllers: built["volcano"].Program("vc-controller-manager"),
		VolcanoCRDs:        built["volcano"].Share("crds"),
		VolcanoJobCRDs:     built["volcano"].Share("jobflow-crds"),
		VolcanoConfig:      built["volcano"].Share("config/volcano-scheduler.conf"),
	}
	if kwok {
		p.KWOK = built["kwok"].Program("kwok")
	}
	if p.Runtime, err = DebianRuntime(ctx); err != nil {
		return Programs{}, err
	}
	p.Pause, err = pauseProgram(ctx)
	return p, err
}

// atOnce is the number of parallel builds: a linker, or a package that all others wait for, leaves processors idle.
const atOnce = 2

func buildAll(ctx context.Context, modules []Module) (map[string]Built, error) {
	var mu sync.Mutex
	built := map[string]Built{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, m := range modules {
		group.Go(func() error {
			b, err := m.Build(ctx)
			mu.Lock()
			defer mu.Unlock()
			built[m.Name] = b
			return err
		})
	}
	return built, group.Wait()
}

func kubernetes(version string) Module {
	return Module{
		Name: "kubernetes", Path: "k8s.io/kubernetes", Version: version,
		Programs: map[string]string{
			"kube-apiserver": "./cmd/kube-apiserver", "kube-controller-manager": "./cmd/kube-controller-manager",
			"kube-scheduler": "./cmd/kube-scheduler", "kubelet": "./cmd/kubelet",
		},
		Staged: func(string) string { return "v0." + strings.TrimPrefix(version, "v1.") },
		Flags:  "-X k8s.io/component-base/version.gitVersion=" + version,
		Patch:  patchCPUs, Patched: "cpus",
	}
}

// patchCPUs makes kubelet report TESTBED_CPUS instead of the machine's cores, so that manifests for real nodes fit a
// small machine. kubelet has no flag for it, and go's -overlay refuses files of the module cache.
func patchCPUs(dir string) error {
	pkg := filepath.Join(dir, "pkg/kubelet/cadvisor")
	util := filepath.Join(pkg, "util.go")
	text, err := os.ReadFile(util)
	if err != nil {
		return err
	}
	const cores = "int64(info.NumCores*1000)"
	if bytes.Count(text, []byte(cores)) != 1 {
		return fmt.Errorf("%s no longer has %s once", util, cores)
	}
	text = bytes.Replace(text, []byte(cores), []byte("int64(testbedCPUs(info.NumCores)*1000)"), 1)
	if err := os.WriteFile(util, text, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(pkg, "testbed.go"), []byte(testbedCPUs), 0o644)
}

const testbedCPUs = `package cadvisor

import (
	"os"
	"strconv"
)

// testbedCPUs is the number of CPUs that the node reports: TESTBED_CPUS if set, else what the machine has.
func testbedCPUs(cores int) int {
	if n, err := strconv.Atoi(os.Getenv("TESTBED_CPUS")); err == nil && n > 0 {
		return n
	}
	return cores
}
`

func etcd(version string) Module {
	return Module{
		Name: "etcd", Path: "go.etcd.io/etcd/server/v3", Version: version,
		Programs: map[string]string{"etcd": "."},
	}
}

func coreDNS(version string) Module {
	return Module{
		Name: "coredns", Path: "github.com/coredns/coredns", Version: version,
		Programs: map[string]string{"coredns": "."},
	}
}

func kubeRay(version string) Module {
	return Module{
		Name: "kuberay", Path: "github.com/ray-project/kuberay/ray-operator", Version: version,
		Programs: map[string]string{"kuberay-operator": "."},
		Files:    map[string]string{"config/crd/bases": "crds", "config/samples": "samples"},
	}
}

func volcano(version, apis string) Module {
	return Module{
		Name: "volcano", Path: "volcano.sh/volcano", Version: version,
		Programs: map[string]string{"vc-scheduler": "./cmd/scheduler", "vc-controller-manager": "./cmd/controller-manager"},
		Files: map[string]string{
			"config/crd/volcano/bases": "crds", "config/crd/jobflow/bases": "jobflow-crds",
			"installer/helm/chart/volcano/config": "config",
		},
		Staged: func(string) string { return apis },
	}
}

func kwokModule(version string) Module {
	return Module{
		Name: "kwok", Path: "sigs.k8s.io/kwok", Version: version,
		Programs: map[string]string{"kwok": "./cmd/kwok"},
	}
}
