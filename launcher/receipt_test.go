package launcher_test

import (
	"testing"
	"time"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
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
