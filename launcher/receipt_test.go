package launcher_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/local/localspec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// TestOnlyNodesAreCharged: a minute of a cluster of three nodes, one of them alive at its end.
func TestOnlyNodesAreCharged(t *testing.T) {
	for name, c := range map[string]struct {
		launcher string
		phases   []runstate.Phase // after 0 s, 20 s, 30 s
		want     float64
	}{
		"never left the queue": {kuberayspec.Name, []runstate.Phase{runstate.Queued, runstate.Queued, runstate.Draining}, 0},
		"pods that never ran":  {kuberayspec.Name, []runstate.Phase{runstate.Queued, runstate.Provisioning, runstate.Starting}, 40},
		"all pods ran":         {kuberayspec.Name, []runstate.Phase{runstate.Queued, runstate.Starting, runstate.Ready}, 120},
		"allocated at once":    {slurmspec.Name, []runstate.Phase{runstate.Queued, runstate.Starting, runstate.Draining}, 120},
		"a requeued one":       {slurmspec.Name, []runstate.Phase{runstate.Starting, runstate.Queued, runstate.Queued}, 60},
	} {
		t.Run(name, func(t *testing.T) {
			s := launcher.Status{Launcher: c.launcher, Created: time.Unix(100, 0), Since: time.Unix(160, 0), Phase: runstate.Gone}
			s.Groups = []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}, {Name: "w", Wanted: 2, GPUs: 4}}
			for i, seconds := range []int64{0, 20, 30} {
				s.Timeline = append(s.Timeline, runstate.Event{At: time.Unix(100+seconds, 0), Kind: "phase", To: string(c.phases[i])})
			}
			u := launcher.NewReceipt(launcher.NewResult(s, launcher.LogInfo{}, nil)).Usage
			if u.NodeSeconds != c.want || u.Nodes != 3 || u.GPUs != 8 {
				t.Errorf("%+v, want %g node-seconds", u, c.want)
			}
			if all := c.want / 3 * 8; u.GPUSeconds != all && (c.want != 40 || u.GPUSeconds != 0) {
				t.Errorf("%g GPU-seconds", u.GPUSeconds)
			}
		})
	}
}

// TestElasticNodesAreCharged: each for as long as it was there, beside the two required ones.
func TestElasticNodesAreCharged(t *testing.T) {
	at := func(second int64) *time.Time { m := time.Unix(100+second, 0); return &m }
	s := launcher.Status{Launcher: localspec.Name, Created: *at(0), Since: *at(100), Phase: runstate.Gone}
	s.Groups = []runstate.Group{{Name: "w", Ready: 2, Wanted: 3, GPUs: 2, Min: 2, Max: 5}}
	for second, event := range map[int64][2]string{0: {"phase", "Starting"}, 10: {"phase", "Ready"}, 20: {"job", "RUNNING"}, 90: {"job", "SUCCEEDED"}} {
		s.Timeline = append(s.Timeline, runstate.Event{At: *at(second), Kind: event[0], To: event[1]})
	}
	one := map[string]int{"w": 1}
	s.Allocations = []runstate.Allocation{
		{ID: "w-2.1", Groups: one, Granted: at(10), Released: at(40)}, {ID: "w-2.2", Groups: one, Granted: at(40), Released: at(60)}, {ID: "w-3.3", Groups: one, Granted: at(80)},
	}
	u := launcher.NewReceipt(launcher.NewResult(s, launcher.LogInfo{}, nil)).Usage
	want := launcher.Usage{
		Nodes: 3, GPUs: 6, NodeSeconds: 270, BusyNodeSeconds: 190, WastedNodeSeconds: 80, GPUSeconds: 540, BusyGPUSeconds: 380, WastedGPUSeconds: 160,
	}
	if u != want {
		t.Errorf("%+v\nwant %+v", u, want)
	}
}

// TestFormerNodesAreCharged: of a long life most nodes are sums only, as the keeper's tests/run/test_allocations.py makes them; the receipt counts all 300.
func TestFormerNodesAreCharged(t *testing.T) {
	at := func(second int64) *time.Time { m := time.Unix(100+second, 0); return &m }
	s := launcher.Status{Launcher: localspec.Name, Created: *at(0), Since: *at(3000), Phase: runstate.Gone}
	s.Groups = []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}, {Name: "w", GPUs: 2, Max: 5}}
	s.Timeline = []runstate.Event{{At: *at(0), Kind: "phase", To: "Ready"}, {At: *at(0), Kind: "job", To: "RUNNING"}}
	for n := int64(100); n < 300; n++ {
		s.Allocations = append(s.Allocations, runstate.Allocation{Purpose: runstate.PurposeElastic, Groups: map[string]int{"w": 1}, Granted: at(10 * n), Released: at(10*n + 5)})
	}
	s.FormerAllocations = []runstate.FormerAllocations{{Group: "w", Count: 100, NodeSeconds: 500, BusyNodeSeconds: 400, Most: 3}}
	rc := launcher.NewReceipt(launcher.NewResult(s, launcher.LogInfo{}, nil))
	want := launcher.Usage{
		Nodes: 4, GPUs: 6, NodeSeconds: 4500, BusyNodeSeconds: 4400, WastedNodeSeconds: 100, GPUSeconds: 3000, BusyGPUSeconds: 2800, WastedGPUSeconds: 200,
	}
	if rc.Usage != want || len(rc.FormerAllocations) != 1 {
		t.Errorf("%+v\nwant %+v", rc.Usage, want)
	}
}

// TestFigures: the receipt shows what the last attempt's driver gave, and the list of attempts what each gave.
func TestFigures(t *testing.T) {
	s := launcher.Status{Launcher: localspec.Name, Created: time.Unix(100, 0), Since: time.Unix(160, 0), Phase: runstate.Gone, Attempt: 2, Job: &runstate.Job{}}
	s.Attempts = []runstate.Attempt{
		{Attempt: 1, Cause: "preempted", Message: "by job 7", Figures: map[string]float64{"loss": 0.5}},
		{Attempt: 2, Cause: "succeeded", Figures: map[string]float64{"steps_lost": 1, "loss": 0.25}},
	}
	text := func() string {
		var b strings.Builder
		if err := launcher.NewReceipt(launcher.NewResult(s, launcher.LogInfo{}, nil)).WriteText(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if got := text(); !strings.Contains(got, "preempted by job 7 (loss 0.5)\n") || !strings.Contains(got, "\n  figures loss 0.25, steps_lost 1\n") {
		t.Error(got)
	}
	if s.Attempt = 3; strings.Contains(text(), "  figures ") { // the third was never submitted
		t.Error(text())
	}
}

// TestRanksAreNamed: after a command that ran on every node, the receipt has how one rank's output is found.
func TestRanksAreNamed(t *testing.T) {
	s := launcher.Status{Name: "fit", Launcher: localspec.Name, Created: time.Unix(100, 0), Since: time.Unix(160, 0), Phase: runstate.Gone, Attempt: 1, Job: &runstate.Job{Entrypoint: "echo 1"}}
	for _, ranks := range []bool{false, true} {
		if ranks {
			s.Job.Entrypoint, _ = driverio.OnNodes(driverio.Ranks{Command: "echo 1"}, nil)
		}
		var b strings.Builder
		rc := launcher.NewReceipt(launcher.NewResult(s, launcher.LogInfo{}, nil))
		if err := rc.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		if rc.Command != "echo 1" || rc.Ranks != ranks || strings.Contains(b.String(), "`rayctl logs fit --rank N` prints") != ranks {
			t.Errorf("%+v: %s", rc, &b)
		}
	}
}

// TestMainAllocationIsCharged: each attempt's from its grant to its release; of pods that come one by one only those that Ray has seen, unless all were there.
func TestMainAllocationIsCharged(t *testing.T) {
	at := func(second int64) *time.Time { m := time.Unix(100+second, 0); return &m }
	for name, c := range map[string]struct {
		launcher, phase string
		second          *time.Time // grant of the second attempt's
		want            launcher.Usage
	}{
		"two attempts":            {slurmspec.Name, "Starting", at(60), launcher.Usage{Nodes: 3, GPUs: 8, NodeSeconds: 180, BusyNodeSeconds: 60, WastedNodeSeconds: 120, GPUSeconds: 480, BusyGPUSeconds: 160, WastedGPUSeconds: 320}},
		"the second never came":   {slurmspec.Name, "Queued", nil, launcher.Usage{Nodes: 3, GPUs: 8, NodeSeconds: 60, BusyNodeSeconds: 30, WastedNodeSeconds: 30, GPUSeconds: 160, BusyGPUSeconds: 80, WastedGPUSeconds: 80}},
		"pods that did not start": {kuberayspec.Name, "Starting", at(60), launcher.Usage{Nodes: 3, GPUs: 8, NodeSeconds: 60, BusyNodeSeconds: 20, WastedNodeSeconds: 40}},
	} {
		t.Run(name, func(t *testing.T) {
			s := launcher.Status{Launcher: c.launcher, Created: *at(0), Since: *at(100), Phase: runstate.Gone}
			s.Groups = []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}, {Name: "w", Wanted: 2, GPUs: 4}}
			s.Timeline = []runstate.Event{
				{At: *at(10), Kind: "phase", To: c.phase}, {At: *at(20), Kind: "job", To: "RUNNING"}, {At: *at(30), Kind: "job", To: "FAILED"},
				{At: *at(80), Kind: "job", To: "RUNNING"}, {At: *at(90), Kind: "job", To: "SUCCEEDED"},
			}
			s.Job = &runstate.Job{}
			all := map[string]int{"head": 1, "w": 2}
			s.Allocations = []runstate.Allocation{
				{ID: "main.1", Purpose: runstate.PurposeMain, Groups: all, Granted: at(10), Released: at(30)}, {ID: "main.2", Purpose: runstate.PurposeMain, Groups: all, Granted: c.second},
			}
			if u := launcher.NewReceipt(launcher.NewResult(s, launcher.LogInfo{}, nil)).Usage; u != c.want {
				t.Errorf("%+v\nwant %+v", u, c.want)
			}
		})
	}
}

// TestEarlyHeadIsCharged: the head from its own admission, the gang from its grant; and a gang that never came not at all.
func TestEarlyHeadIsCharged(t *testing.T) {
	at := func(second int64) *time.Time { m := time.Unix(100+second, 0); return &m }
	s := launcher.Status{Launcher: slurmspec.Name, Created: *at(0), Since: *at(100), Phase: runstate.Gone}
	s.Groups = []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}, {Name: "w", Wanted: 2, GPUs: 8}}
	s.Timeline = []runstate.Event{{At: *at(10), Kind: "phase", To: "Provisioning"}, {At: *at(20), Kind: "phase", To: "Queued"}, {At: *at(60), Kind: "phase", To: "Starting"}}
	s.Allocations = []runstate.Allocation{
		{ID: "head.1", Purpose: runstate.PurposeHead, Groups: map[string]int{"head": 1}, Granted: at(10)},
		{ID: "gang.2", Purpose: runstate.PurposeGang, Groups: map[string]int{"w": 2}, Granted: at(60), Released: at(90)},
	}
	u := launcher.NewReceipt(launcher.NewResult(s, launcher.LogInfo{}, nil)).Usage
	if want := (launcher.Usage{Nodes: 3, GPUs: 16, NodeSeconds: 150, WastedNodeSeconds: 150, GPUSeconds: 480, WastedGPUSeconds: 480}); u != want {
		t.Errorf("%+v\nwant %+v", u, want)
	}
	s.Allocations[1].Granted = nil
	u = launcher.NewReceipt(launcher.NewResult(s, launcher.LogInfo{}, nil)).Usage
	if want := (launcher.Usage{Nodes: 1, NodeSeconds: 90, WastedNodeSeconds: 90}); u != want {
		t.Errorf("%+v\nwant %+v", u, want)
	}
}

// TestTimesAddUp: each second of the life is in one part of it, also those before a driver runs (pip), between attempts, and of its grace.
func TestTimesAddUp(t *testing.T) {
	event := func(second int64, kind, to string) runstate.Event {
		return runstate.Event{At: time.Unix(100+second, 0), Kind: kind, To: to}
	}
	run := []runstate.Event{
		event(-5, "phase", "Queued"), // another clock
		event(1, "phase", "Provisioning"), event(3, "phase", "Starting"), event(7, "phase", "Ready"), event(8, "job", "PENDING"),
		event(40, "job", "RUNNING"), event(60, "phase", "Lost"), event(61, "phase", "Starting"), event(70, "phase", "Ready"), event(71, "job", "PENDING"),
		event(90, "phase", "Draining"), event(80, "job", "RUNNING"), event(95, "job", "STOPPED"), event(98, "phase", "Gone"),
	}
	for name, c := range map[string]struct {
		job      *runstate.Job
		timeline []runstate.Event
		want     launcher.Durations
	}{
		"a run": {&runstate.Job{}, run, launcher.Durations{Queued: 1, Provisioning: 2, Starting: 13, Preparing: 43, Driver: 35, Lost: 1, Draining: 5, Total: 100}},
		"a cluster": {nil, []runstate.Event{event(1, "phase", "Starting"), event(7, "phase", "Ready"), event(90, "phase", "Draining")},
			launcher.Durations{Queued: 1, Starting: 6, Ready: 83, Draining: 10, Total: 100}},
		"an environment made first": {nil, []runstate.Event{event(0, "environment", "making"), event(30, "environment", "made"), event(31, "phase", "Starting"), event(40, "phase", "Ready")},
			launcher.Durations{Installing: 30, Queued: 1, Starting: 9, Ready: 60, Total: 100}},
		"nothing is known": {&runstate.Job{}, nil, launcher.Durations{Queued: 100, Total: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			s := launcher.Status{Launcher: localspec.Name, Phase: runstate.Gone, Created: time.Unix(100, 0), Since: time.Unix(200, 0), Job: c.job, Timeline: c.timeline}
			rc := launcher.NewReceipt(launcher.NewResult(s, launcher.LogInfo{}, nil))
			d := rc.Durations
			if d != c.want || d.Installing+d.Queued+d.Provisioning+d.Starting+d.Preparing+d.Driver+d.Ready+d.Lost+d.Draining != d.Total {
				t.Errorf("%+v, want %+v", d, c.want)
			}
			var text strings.Builder
			if err := rc.WriteText(&text); err != nil || c.job != nil && c.timeline != nil && !strings.Contains(text.String(), "preparing 43 s, driver 35 s, lost 1.0 s, ending 5.0 s)") {
				t.Errorf("%v: %s", err, &text)
			}
		})
	}
}

// TestMissingOutput: the note about output that was not saved.
func TestMissingOutput(t *testing.T) {
	for r, want := range map[[2]int64]string{
		{593, -1}: "Output after byte 593 was not saved",
		{0, -1}:   "The output was not saved",
		{5, 9}:    "Bytes 5 to 9 of the output were not saved",
	} {
		if got := launcher.MissingOutput(r); got != want {
			t.Errorf("%v: %q, want %q", r, got, want)
		}
	}
}

// TestOneZone: all times that people read are of one zone, and name it.
func TestOneZone(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("CET", 3600))
	if got := launcher.Stamp(at); got != "2026-01-02T02:04:05Z" {
		t.Errorf("%s is shown as %s", at, got)
	}
}
