package keeper_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// A driver that needs seconds for its checkpoint gets them; without a limit it knows of no end beforehand, and an end that somebody asks for drains nothing. A worker that `ray start` gave up at first is there. The second of two
// keepers in one directory exits at once.
func TestInterruptAndRetriedWorker(t *testing.T) {
	t.Parallel()
	entrypoint := `trap 'echo saving; sleep 5; echo "jobs $(ray job list 2>/dev/null | grep -c "[-]drain-")"; echo saved; exit 0' TERM
echo "up, ends $RAYCTL_ENDS_AT."; while :; do sleep 0.1; done`
	r := newRig(t, entrypoint, func(o *keeper.Orders) {
		o.Job.Grace = 120
		o.Groups = append(o.Groups, keeper.Group{Name: "w", Count: 1, CPUs: ptr(1.0), GPUs: ptr(0.0), ObjectStoreMemory: ptr(int64(100e6)),
			Labels: map[string]string{"zone": "a"}, Resources: map[string]float64{"rollout": 1}})
		// The worker's first try has too few file descriptors: `ray start` itself fails.
		o.Ray.Setup = `if [ -n "$FLAG" ] && [ ! -e "$FLAG" ]; then touch "$FLAG"; ulimit -n 8; fi`
		o.Groups[1].Env = map[string]string{"FLAG": filepath.Join(t.TempDir(), "flag")}
	}).start(nil)
	r.commit(keeper.Commit{})
	s := r.state("the driver runs", running)
	if len(s.Nodes) != 2 || s.Nodes[1].State != "ALIVE" || s.Groups[1].Ready != 1 {
		t.Errorf("nodes: %+v", s.Nodes)
	}
	r.eventually("the trap is set", func() bool { return strings.Contains(r.log(), "up, ends .\n") })
	first, exited := r.cmd, r.exited
	r.exec()
	r.wait()
	if code := r.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("a second keeper ended with %d", code)
	}
	r.cmd, r.exited = first, exited
	_, err := r.client().End(context.Background(), keeper.End{Cause: runstate.CauseInterrupted, By: "me@here"})
	r.must(err)
	s = r.result()
	if s.Exit.Cause != runstate.CauseInterrupted || s.Exit.Code != 130 || s.Exit.By != "me@here" {
		t.Errorf("exit: %+v", s.Exit)
	}
	if log := r.log(); !strings.HasSuffix(log, "saving\njobs 0\nsaved\n") {
		t.Errorf("the driver's checkpoint is cut: %q", log)
	}
}
