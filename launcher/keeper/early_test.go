package keeper_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestEarlyHead: job.prepare runs before the workers are there, which wait for it here in their setup; the driver begins with them, or with the head alone.
func TestEarlyHead(t *testing.T) {
	for start, want := range map[string]string{"": "prepared\nnodes: 2\n", "head": "prepared\nnodes: 1\nnodes: 2\n"} {
		t.Run("start "+start, func(t *testing.T) {
			gate := filepath.Join(t.TempDir(), "gate")
			count := `python -c 'import ray; ray.init(log_to_driver=False, logging_level="ERROR"); print("nodes:", sum(n["Alive"] for n in ray.nodes()))'`
			driver := count
			if start == "head" {
				driver += `; touch "$GATE"; until ` + count + ` | grep -q 2; do sleep 0.2; done; ` + count
			}
			r := newRig(t, driver, func(o *keeper.Orders) {
				o.Start.Early, o.Job.Start, o.Job.Prepare = true, start, `echo prepared; [ "$START" = head ] || touch "$GATE"`
				o.Job.Env = map[string]string{"GATE": gate, "START": start}
				o.Groups = append(o.Groups, keeper.Group{Name: "w", Count: 1, CPUs: ptr(1.0), GPUs: ptr(0.0), ObjectStoreMemory: ptr(int64(100e6)), Env: map[string]string{"WAITS": gate}})
				o.Ray.Setup = `until [ -z "$WAITS" ] || [ -e "$WAITS" ]; do sleep 0.1; done`
			}).start(nil)
			r.commit(keeper.Commit{})
			s := r.result()
			said := ""
			for line := range strings.Lines(r.log()) { // without Ray's own
				if line == "prepared\n" || strings.HasPrefix(line, "nodes: ") {
					said += line
				}
			}
			if s.Exit.Cause != runstate.CauseSucceeded || said != want {
				t.Errorf("exit %+v, output %q, want %q", s.Exit, r.log(), want)
			}
			if len(s.Allocations) > 0 {
				t.Errorf("all nodes start at once here: %+v", s.Allocations)
			}
			if _, err := os.Stat(gate); err != nil {
				t.Error(err)
			}
			ready, runs := 0, 0
			for i, e := range s.Timeline {
				switch {
				case e.To == string(runstate.Ready):
					ready = i
				case e.Kind == runstate.EventJob && e.To == string(runstate.JobRunning):
					runs = i
				}
			}
			if (start == "head") != (runs < ready) || ready == 0 {
				t.Errorf("ready is event %d, the driver's start %d", ready, runs)
			}
		})
	}
}
