package keeper_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// job.prepare fills a disk: the run's own, where the keeper writes, or the nodes', where Ray does. The run ends with its exit code, and the message names what is missing.
func TestPrepareFillsTheDisk(t *testing.T) {
	t.Parallel()
	for name, disk := range map[string]func(*testing.T, *rig) string{
		"run's": func(t *testing.T, r *rig) string {
			dir := filepath.Dir(string(r.dir))
			mount(t, dir, "size=2m")
			return dir
		},
		"nodes'": func(t *testing.T, r *rig) string {
			dir, err := os.MkdirTemp("/tmp", "full") // short: sockets are below it
			r.must(err)
			t.Cleanup(func() { _ = os.Remove(dir) })
			mount(t, dir, "size=48m")
			r.orders.Ray.TempRoot = dir
			return dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "echo never", func(o *keeper.Orders) { o.Job.Prepare = `cat /dev/zero > "$FILL/weights"; exit 9` })
			r.orders.Job.Env = map[string]string{"FILL": disk(t, r)}
			r.start(nil)
			r.commit(keeper.Commit{})
			s := r.result()
			if s.Exit.Origin != runstate.OriginPrepare || s.Exit.Cause != runstate.CausePrepareFailed || s.Exit.Code != 9 || s.Exit.Retryable {
				t.Errorf("exit: %+v", s.Exit)
			}
			if log := r.log(); len(s.Log.Missing) == 0 && name == "run's" && !strings.Contains(log, "No space left") {
				t.Errorf("log: %+v, but driver.log has %q", s.Log, log)
			}
			if s.Job.State != runstate.JobWaiting || len(s.Attempts) != 1 || *s.Attempts[0].ExitCode != 9 || s.Attempts[0].LogBegin != runstate.AllPrepare {
				t.Errorf("attempts: %+v", s.Attempts)
			}
		})
	}
}
