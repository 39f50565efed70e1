package onemachine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/local/localspec"
	"github.com/rayctl/rayctl/local/rayenv"
)

const gib = 1 << 30

func planFor(s *spec.ClusterSpec) nodePlan {
	s.Name = "x"
	return nodePlan{
		Spec: spec.For(s, localspec.Name), Env: rayenv.Env{Python: "/v/bin/python", Version: "2.60.0"},
		Machine: machine{CPUs: 8, Memory: 32 * gib, Shm: 16 * gib}, Launcher: localspec.Name, Start: keeper.Start{Mode: keeper.StartSpawn}, OutputDir: "/state/x/output", TempRoot: "/tmp",
	}
}

// shape is what a test of groups compares.
type shape struct {
	Name       string
	Count      int
	CPUs, GPUs float64
}

func shapes(groups []keeper.Group) (out []shape) {
	for _, g := range groups {
		out = append(out, shape{g.Name, g.Count, *g.CPUs, *g.GPUs})
	}
	return out
}

func group(name string, replicas int, r spec.NodeResources) spec.WorkerGroup {
	return spec.WorkerGroup{Name: name, Replicas: &replicas, NodeResources: r}
}

// TestStores: the file's object stores go before the bounds of the default ones, and must fit into /dev/shm.
func TestStores(t *testing.T) {
	big := spec.NodeResources{ObjectStoreMemory: resource.MustParse("5Gi"), ObjectSpillingDirectory: "/disk", Labels: map[string]string{"a": "b"}, Env: map[string]string{"C": "d"}}
	p := planFor(&spec.ClusterSpec{Workers: []spec.WorkerGroup{group("a", 2, big), group("b", 1, spec.NodeResources{})}})
	groups := p.Orders().Groups
	if *groups[0].ObjectStoreMemory != 5*gib || *groups[1].ObjectStoreMemory != 2*gib/3 {
		t.Errorf("object stores of %d and %d", *groups[0].ObjectStoreMemory, *groups[1].ObjectStoreMemory)
	}
	if g := groups[0]; g.ObjectSpillingDirectory != "/disk" || g.Labels["a"] != "b" || g.Env["C"] != "d" {
		t.Errorf("%+v", g)
	}
	if err := checkStores(p.Spec, 10*gib); err != nil {
		t.Error(err)
	}
	if err := checkStores(p.Spec, 9*gib); err == nil || err.Error() != "the object stores of all nodes take 10.0 GiB together, and /dev/shm has 9.0 GiB free: lower objectStoreMemory, or make /dev/shm larger (containers: --shm-size)" {
		t.Error(err)
	}
}

func TestGroups(t *testing.T) {
	for name, test := range map[string]struct {
		spec spec.ClusterSpec
		want []shape
	}{
		"nothing said: one head that runs tasks on all cores": {spec.ClusterSpec{}, []shape{{"head", 1, 8, 0}}},
		"the first group has the head; cores are shared": {
			spec.ClusterSpec{Workers: []spec.WorkerGroup{group("a", 2, spec.NodeResources{}), group("b", 1, spec.NodeResources{})}},
			[]shape{{"a", 2, 2, 0}, {"b", 1, 2, 0}},
		},
		"head.on moves that group to the front": {
			spec.ClusterSpec{Head: spec.Head{On: "b"}, Workers: []spec.WorkerGroup{group("a", 1, spec.NodeResources{}), group("b", 1, spec.NodeResources{GPUs: 2})}},
			[]shape{{"b", 1, 4, 2}, {"a", 1, 4, 0}},
		},
		"a head of its own takes no tasks and no share": {
			spec.ClusterSpec{Head: spec.Head{NodeResources: spec.NodeResources{CPUs: 4, GPUs: 1}}, Workers: []spec.WorkerGroup{group("a", 2, spec.NodeResources{})}},
			[]shape{{"head", 1, 0, 0}, {"a", 2, 4, 0}},
		},
		"a head of its own by name": {
			spec.ClusterSpec{Head: spec.Head{On: spec.HeadGroupName}, Workers: []spec.WorkerGroup{group("a", 2, spec.NodeResources{})}},
			[]shape{{"head", 1, 0, 0}, {"a", 2, 4, 0}},
		},
		"more workers than cores": {
			spec.ClusterSpec{Workers: []spec.WorkerGroup{group("a", 20, spec.NodeResources{})}}, []shape{{"a", 20, 1, 0}},
		},
		"Ray counts whole CPUs, and an empty group is none": {
			spec.ClusterSpec{Workers: []spec.WorkerGroup{group("a", 1, spec.NodeResources{CPUs: 0.5}), group("b", 0, spec.NodeResources{})}}, []shape{{"a", 1, 1, 0}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, shapes(planFor(&test.spec).Orders().Groups)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMemory(t *testing.T) {
	asked := resource.MustParse("4Gi")
	p := planFor(&spec.ClusterSpec{Workers: []spec.WorkerGroup{group("a", 1, spec.NodeResources{Memory: asked}), group("b", 3, spec.NodeResources{})}})
	groups := p.Orders().Groups
	if got := *groups[0].Memory; got != 4*gib {
		t.Errorf("memory that was asked for: %d", got)
	}
	var store int64
	for _, g := range groups {
		store += *g.ObjectStoreMemory * int64(g.Count)
	}
	if store > 2*gib {
		t.Errorf("all object stores together take %d", store)
	}
	p.Machine.Shm = 64 << 20 // a container's default
	if got := *p.Orders().Groups[0].ObjectStoreMemory; got != storeLeast {
		t.Errorf("object store with a small /dev/shm: %d", got)
	}
}

func TestOrders(t *testing.T) {
	keep := units.Duration(time.Hour)
	s := &spec.ClusterSpec{
		Env: map[string]string{"A": "b c"}, Setup: "true", Secrets: []spec.Secret{{Name: "TOP"}},
		Lifetime: spec.Lifetime{Max: units.Limit(time.Minute), Idle: units.NoLimit, Keep: &keep},
		Job: spec.Job{Entrypoint: `echo "$x"`, OutputDir: "/runs/{name}/o", ShareDir: "/team", Cwd: "/w", Env: map[string]string{"J": "1"},
			Restarts: spec.Restarts{Driver: 2, NodeFailure: units.Unlimited}},
	}
	p := planFor(s)
	p.Disconnect = 2 * time.Minute
	o := p.Orders()
	if o.SpecHash != spec.Hash(p.Spec) || !o.WatchStdin || o.Start.Mode != keeper.StartSpawn || o.ShareDir != "/team" {
		t.Errorf("orders: %+v", o)
	}
	wantJob := &keeper.Job{
		Entrypoint: `echo "$x"`, SubmissionPrefix: "x", OutputDir: "/runs/x/o", Cwd: "/w", Env: map[string]string{"J": "1"}, Grace: 3,
		Restarts: keeper.Restarts{Driver: 2, NodeFailure: -1, Preempted: -1},
	}
	if diff := cmp.Diff(wantJob, o.Job); diff != "" {
		t.Error(diff)
	}
	wantLife := keeper.Lifetime{Lease: 120, Start: 600, Max: 60, Silence: 300, Disconnect: 120, Keep: 3600, KeepOutput: 8 << 20, KeepOutputTotal: 64 << 20}
	if diff := cmp.Diff(wantLife, o.Lifetime); diff != "" {
		t.Error(diff)
	}
	wantRay := keeper.RaySettings{Python: p.Env.Python, Version: "2.60.0", FastStart: "2.60.0", Env: map[string]string{"A": "b c"}, Setup: "true", TempRoot: "/tmp"}
	if diff := cmp.Diff(wantRay, o.Ray); diff != "" {
		t.Error(diff)
	}
	if up := planFor(&spec.ClusterSpec{}).Orders(); up.Job != nil {
		t.Errorf("a cluster without an entrypoint has a job: %+v", up.Job)
	}
}

func TestTempRoot(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", longestTempRoot)) // longer than sockets allow
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	if got, err := tempRoot(spec.For(&spec.ClusterSpec{}, localspec.Name)); err != nil || got != "/tmp" {
		t.Errorf("long TMPDIR: %q, %v", got, err)
	}
	if _, err := tempRoot(spec.For(&spec.ClusterSpec{Sections: localspec.In(&localspec.Section{TmpDir: long})}, localspec.Name)); err == nil {
		t.Error("a local.tmpDir too long for sockets was taken")
	}
	t.Setenv("TMPDIR", "/var/tmp/")
	if got, err := tempRoot(spec.For(&spec.ClusterSpec{}, localspec.Name)); err != nil || got != "/var/tmp" {
		t.Errorf("short TMPDIR: %q, %v", got, err)
	}
}
