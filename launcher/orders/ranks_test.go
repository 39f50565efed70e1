package orders_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// TestRanksGet: what the program that runs ranks is told of the cluster file: the site's ports, the groups that run, and what the driver itself has.
func TestRanksGet(t *testing.T) {
	grace := units.Duration(9 * time.Second)
	s := &spec.ClusterSpec{
		Workers: []spec.WorkerGroup{{Name: "h"}, {Name: "w", Replicas: new(int)}},
		Job:     spec.Job{Entrypoint: "work", Launch: spec.Launch{PerNode: units.EachGPU, Groups: []string{"w"}}, EntrypointCPUs: 2, Grace: &grace},
	}
	*s.Workers[1].Replicas = 3
	spec.Default(s)
	packed, err := base64.StdEncoding.DecodeString(orders.Job(s, "", "21000-21063").Env["RAYCTL_RANKS_JOB"])
	if err != nil {
		t.Fatal(err)
	}
	r, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var got driverio.Ranks
	if err := json.NewDecoder(r).Decode(&got); err != nil {
		t.Fatal(err)
	}
	got.Program, got.Guard = "", ""
	want := driverio.Ranks{Command: "work", PerNode: "gpu", Ports: "21000-21063", Grace: 9, Reserved: [2]float64{2, 0}, Groups: []driverio.RankGroup{
		{Name: "head", Count: 1, Head: true}, {Name: "h", Count: 1}, {Name: "w", Count: 3, Runs: true},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestFitsRanks: ranks that nodes cannot have are refused before anything is allocated.
func TestFitsRanks(t *testing.T) {
	four, part, none := 4.0, 0.2, 0.0
	for _, c := range []struct {
		gpus   int
		cpus   *float64
		launch spec.Launch
		want   string
	}{
		{0, &four, spec.Launch{PerNode: 4}, ""},
		{0, nil, spec.Launch{PerNode: 400}, ""}, // only Slurm knows
		{0, &part, spec.Launch{PerNode: 1}, ""},
		{0, &none, spec.Launch{PerNode: 2}, ""}, // a head that takes no tasks
		{0, &four, spec.Launch{}, ""},
		{0, &four, spec.Launch{PerNode: 5}, "job.launch.perNode: a node of group w has 4 CPUs for 5 processes: set workers.w.cpus: 5, or lower perNode"},
		{0, &four, spec.Launch{PerNode: units.EachGPU, Groups: []string{"w"}}, "the nodes of group w have no GPU: set workers.w.gpus, or give perNode a number"},
		{8, nil, spec.Launch{PerNode: units.EachGPU}, ""},
		{8, nil, spec.Launch{PerNode: 16}, ""},
		{8, nil, spec.Launch{PerNode: 3}, "the 8 GPUs of a node of group w cannot be divided equally among 3 processes"},
	} {
		s := &spec.ClusterSpec{Workers: []spec.WorkerGroup{{Name: "w", NodeResources: spec.NodeResources{GPUs: c.gpus}}}, Job: spec.Job{Launch: c.launch}}
		err := orders.FitsGroups(s, []keeper.Group{{Name: "w", CPUs: c.cpus}})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v", c.launch, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || launcher.ExitCode(err) != runstate.CodeSpec):
			t.Errorf("%+v: %v, want %q", c.launch, err, c.want)
		}
	}
}
