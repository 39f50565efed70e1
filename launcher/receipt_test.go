package launcher_test

import (
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestOnlyNodesAreCharged: a minute of a cluster of three nodes, of which one was there at its end.
func TestOnlyNodesAreCharged(t *testing.T) {
	for name, c := range map[string]struct {
		launcher string
		phases   []launcher.Phase // after 0 s, 20 s, 30 s
		want     float64
	}{
		"never left the queue": {spec.LauncherKubeRay, []launcher.Phase{launcher.Queued, launcher.Queued, launcher.Draining}, 0},
		"pods that never ran":  {spec.LauncherKubeRay, []launcher.Phase{launcher.Queued, launcher.Provisioning, launcher.Starting}, 40},
		"all pods ran":         {spec.LauncherKubeRay, []launcher.Phase{launcher.Queued, launcher.Starting, launcher.Ready}, 120},
		"allocated at once":    {spec.LauncherSlurm, []launcher.Phase{launcher.Queued, launcher.Starting, launcher.Draining}, 120},
		"a requeued one":       {spec.LauncherSlurm, []launcher.Phase{launcher.Starting, launcher.Queued, launcher.Queued}, 60},
	} {
		t.Run(name, func(t *testing.T) {
			s := launcher.Status{Launcher: c.launcher, Created: time.Unix(100, 0), Since: time.Unix(160, 0), Phase: launcher.Gone}
			s.Groups = []launcher.GroupStatus{{Name: "head", Ready: 1, Wanted: 1}, {Name: "w", Wanted: 2, GPUs: 4}}
			for i, seconds := range []int64{0, 20, 30} {
				s.Timeline = append(s.Timeline, launcher.Event{At: time.Unix(100+seconds, 0), Kind: "phase", To: string(c.phases[i])})
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
