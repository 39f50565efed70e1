package keeper_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// A run that a limit ends is announced: by RAYCTL_ENDS_AT from the beginning, and by Ray's drain of its nodes beside SIGTERM. Idle nodes that leave
// then, and a driver that ends before its grace is over, take no output with them.
func TestDriverIsWarnedOfItsEnd(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "warned.py")
	if err := os.WriteFile(program, []byte(warned), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, "exec python "+program, func(o *keeper.Orders) {
		o.Lifetime.Max, o.Lifetime.Total, o.Job.Grace = 3600, 7200, 120
		o.Groups = append(o.Groups, keeper.Group{Name: "w", Count: 1, CPUs: ptr(1.0), GPUs: ptr(0.0), ObjectStoreMemory: ptr(int64(100e6))})
	}).start(nil)
	r.commit(keeper.Commit{})
	s := r.state("the driver runs", running)
	r.eventually("the driver has printed", func() bool { return strings.Contains(r.log(), "ends ") })
	end := s.Deadlines.Max.Unix()
	if ends := fmt.Sprintf("ends %d %[1]d\n", end); !strings.Contains(r.log(), ends) {
		t.Errorf("want %q; the driver printed %q", ends, r.log())
	}
	_, err := r.client().Extend(t.Context(), keeper.Extend{Max: ptr(0.1)})
	r.must(err)
	s = r.result()
	if s.Exit.Cause != runstate.CauseMax || s.Exit.Code != runstate.CodeTimeLimit {
		t.Errorf("exit: %+v", s.Exit)
	}
	if s.Job.State != runstate.JobStopped || s.Job.Message != s.Exit.Message { // Ray's own message is that of every stop
		t.Errorf("job: %+v", s.Job)
	}
	if log := r.log(); !strings.Contains(log, "draining {} True\nsaved\n") {
		t.Errorf("the driver printed %q", log)
	}
}

// warned goes on after SIGTERM until Ray shows its own node draining, as Ray Train's controller does, and has then what the end needs of the head.
const warned = `import os, signal, sys, time, ray
ray.init(log_to_driver=False, logging_level=40)
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(time.time()))
print("ends", os.environ.get("RAYCTL_ENDS_AT"), os.environ.get("MLP_CURRENT_CAPACITY_BLOCK_EXPIRATION_TIMESTAMP"), flush=True)
draining, here = ray._private.state.state.get_draining_nodes, ray.get_runtime_context().get_node_id()
early = draining()
while not told or here not in draining():
    time.sleep(0.1)
left = min(draining().values()) / 1000 - told[0]
print("draining", early, 100 < left < 140, flush=True)
time.sleep(3)
print("saved", flush=True)
`
