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

// lifetime.max applies to each attempt, and another one follows while restarts.timeLimit lasts. An attempt that ends while job.prepare runs is followed by one on the
// same nodes, which begins with it again; one that ends while the driver runs by one on nodes that start again, because Ray has drained them.
func TestTimeLimitRestarts(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "saves.py")
	if err := os.WriteFile(program, []byte(savesWhenDrained), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, "exec python "+program, func(o *keeper.Orders) {
		o.Job.Prepare = `echo "prepare $RAYCTL_ATTEMPT"; test $RAYCTL_ATTEMPT != 1 || exec sleep 100000`
		o.Lifetime.Max, o.Job.Grace, o.Job.Restarts.TimeLimit = 3600, 60, 2
	}).start(nil)
	r.commit(keeper.Commit{})
	var sessions []string
	for attempt, line := range []string{"prepare 1\n", "attempt 2 time-limit\n", "attempt 3 time-limit\n"} {
		s := r.state("the attempt runs", func(s *runstate.State) bool {
			return s.Attempt == attempt+1 && (running(s) || attempt == 0 && s.Job.Prepares() && s.Job.Prepare.State == runstate.JobRunning)
		})
		if left := s.Deadlines.Max.Sub(s.Since); left.Minutes() < 50 {
			t.Errorf("attempt %d has %s", attempt+1, left)
		}
		sessions = append(sessions, s.Head.Session)
		r.eventually("its line", func() bool { return strings.Contains(r.log(), line) })
		_, err := r.client().Extend(t.Context(), keeper.Extend{Max: ptr(0.1)}) // reached after 0.1 s
		r.must(err)
	}
	if sessions[0] != sessions[1] || sessions[1] == sessions[2] {
		t.Errorf("the attempts were on %q", sessions)
	}
	s := r.result()
	if s.Exit.Cause != runstate.CauseMax || s.Exit.Code != 124 || len(s.Attempts) != 3 || s.Attempts[0].Cause != runstate.CauseTimeLimit || s.Attempts[1].Cause != runstate.CauseTimeLimit {
		t.Fatalf("exit %+v, attempts %+v", s.Exit, s.Attempts)
	}
	if s.Attempts[0].LogBegin != runstate.AllPrepare {
		t.Errorf("attempt 1: %+v", s.Attempts[0])
	}
	second, err := os.ReadFile(filepath.Join(string(r.dir), keeper.AttemptLog(2)))
	r.must(err)
	for n, log := range map[int]string{2: string(second), 3: r.log()} {
		begin := s.Attempts[n-1].LogBegin // Ray may print a line of its own behind it
		if !strings.Contains(log[:begin], fmt.Sprintf("prepare %d\n", n)) || !strings.Contains(log[begin:], fmt.Sprintf("attempt %d time-limit\n", n)) || !strings.HasSuffix(log, "saved\n") {
			t.Errorf("attempt %d printed %q, of which the driver's begins at %d", n, log, begin)
		}
	}
}

// savesWhenDrained saves when it has got SIGTERM and Ray drains its node, as Ray Train's controller does.
const savesWhenDrained = `import os, signal, time, ray
ray.init(log_to_driver=False, logging_level=40)
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(True))
print("attempt", os.environ["RAYCTL_ATTEMPT"], os.environ.get("RAYCTL_RESTART_REASON", ""), flush=True)
draining, here = ray._private.state.state.get_draining_nodes, ray.get_runtime_context().get_node_id()
while not told or here not in draining():
    time.sleep(0.1)
print("saved", flush=True)`
