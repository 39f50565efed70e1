package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// WarnedProgram prints when the run ends at the latest, and goes on after SIGTERM until Ray shows its own node draining, as Ray Train's controller does.
const WarnedProgram = `import os, signal, time, ray
ray.init(log_to_driver=False, logging_level=40)
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(time.time()))
print("ends", os.environ.get("RAYCTL_ENDS_AT"), os.environ.get("MLP_CURRENT_CAPACITY_BLOCK_EXPIRATION_TIMESTAMP"), flush=True)
draining, here = ray._private.state.state.get_draining_nodes, ray.get_runtime_context().get_node_id()
while not told or here not in draining():
    time.sleep(0.1)
print("warned of", round((draining()[here] / 1000 - told[0]) / 30) * 30, "s", flush=True)
time.sleep(2)
print("saved", flush=True)`

// warned: the end by a limit is known from the beginning, and becomes Ray's drain of the nodes beside SIGTERM.
func warned(t *testing.T, s *suite) {
	sp := s.spec(t, "exec "+python(WarnedProgram))
	sp.Lifetime.Max, sp.Job.Grace = units.Limit(90*time.Second), durationPtr(60*time.Second)
	var end time.Time
	oc, out := s.run(t, sp, launcher.RunOptions{OnStatus: func(st launcher.Status) {
		if st.Phase == runstate.Ready && st.Deadlines.Max != nil {
			end = *st.Deadlines.Max
		}
	}})
	wantExit(t, oc.Receipt.Exit, "rayctl", "max", runstate.CodeTimeLimit)
	if want := fmt.Sprintf("ends %d %[1]d\nwarned of 60 s\nsaved\n", end.Unix()); out != want {
		t.Errorf("output %q, want %q", out, want)
	}
}
