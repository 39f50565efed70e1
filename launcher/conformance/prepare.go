package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

const (
	preparing = "==> job.prepare <==\n"
	driving   = "==> driver <==\n"
)

// prepares: job.prepare runs once on a cluster, before the driver, with what the driver gets; a driver that is restarted there does not repeat it.
func prepares(t *testing.T, s *suite) {
	sp := s.spec(t, `echo "attempt $RAYCTL_ATTEMPT"; test $RAYCTL_ATTEMPT = 2 || exit 5`)
	sp.Job.Prepare = `echo "weights of $RAYCTL_RUN for $TEAM"`
	sp.Job.Env = map[string]string{"TEAM": "blue"}
	sp.Job.Restarts.Driver = 1
	oc, out := s.run(t, sp, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "driver", "succeeded", 0)
	if want := preparing + "weights of " + sp.Name + " for blue\n" + driving + "attempt 1\n" + driving + "attempt 2\n"; out != want {
		t.Errorf("output %q, want %q", out, want)
	}
	// A client that comes afterwards shows the same.
	if again := s.shown(t, oc.ID); again != out {
		t.Errorf("shown again: %q, first: %q", again, out)
	}
	if oc.Receipt.Durations.Preparing <= 0 || len(oc.Receipt.Attempts) != 2 {
		t.Errorf("the receipt does not account for the run: %s", mustJSON(t, oc.Receipt))
	}
}

// shown attaches to a run and returns what it prints until its end.
func (s *suite) shown(t *testing.T, id launcher.ID) string {
	t.Helper()
	var out strings.Builder
	if _, err := launcher.Attach(s.context(t), s.l, id, launcher.RunOptions{Stdout: &out}); err != nil {
		t.Fatalf("attach: %v", err)
	}
	return out.String()
}

// prepareFails: the run ends with the exit code of job.prepare, and the driver never runs.
func prepareFails(t *testing.T, s *suite) {
	sp := s.spec(t, "echo never")
	sp.Job.Prepare = "echo no such model; exit 9"
	sp.Job.Restarts.Driver = 3
	oc, out := s.run(t, sp, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "prepare", "prepare-failed", 9)
	if oc.Receipt.Exit.Retryable || len(oc.Receipt.Attempts) != 1 || oc.Receipt.Prepare == nil || oc.Receipt.Prepare.State != runstate.JobFailed {
		t.Errorf("a failure of job.prepare is the user's, and final: %s", mustJSON(t, oc.Receipt))
	}
	if want := preparing + "no such model\n"; out != want {
		t.Errorf("output %q, want %q", out, want)
	}
}

// prepareInterrupted: job.prepare is followed live, and gets the driver's grace.
func prepareInterrupted(t *testing.T, s *suite) {
	sp := s.spec(t, "echo never")
	sp.Job.Prepare = "exec " + python(checkpointProgram)
	sp.Job.Grace = durationPtr(60 * time.Second)
	oc, out := s.interrupted(t, sp.Name, launcher.Stop, func(o launcher.RunOptions) (*launcher.Outcome, string) {
		return s.run(t, sp, o)
	})
	wantExit(t, oc.Receipt.Exit, "rayctl", "interrupted", runstate.CodeInterrupted)
	if out != preparing+"training\ncheckpointing\nsaved\n" {
		t.Errorf("output %q: job.prepare did not get its grace", out)
	}
}

// prepareHangs: a limit ends job.prepare as it ends a driver. The limit is short only once job.prepare runs: on a busy machine that can take longer.
func prepareHangs(t *testing.T, s *suite) {
	sp := s.spec(t, "echo never")
	sp.Job.Prepare = "echo begun; exec sleep 600"
	id := s.launch(t, sp)
	if !s.printed(t, id, "begun") {
		t.Fatal("job.prepare does not run")
	}
	soon := 1.0
	s.extend(t, id, keeper.Extend{Max: &soon})
	r := s.untilGone(t, id)
	wantExit(t, *r.Exit, "rayctl", "max", runstate.CodeTimeLimit)
	if out, want := s.shown(t, id), preparing+"begun\n"; out != want {
		t.Errorf("output %q, want %q: job.prepare alone ran", out, want)
	}
}

// prepareKeeperKilled: job.prepare is not run beside itself by the keeper that follows; where none does, its output up to then is saved.
func prepareKeeperKilled(t *testing.T, s *suite) {
	sp := s.spec(t, "echo trained")
	sp.Job.Prepare = "echo begun; sleep 45; echo prepared"
	id := s.launch(t, sp)
	if !s.printed(t, id, "begun") {
		t.Fatal("job.prepare does not run")
	}
	s.KillKeeper(t, id)
	r := s.untilGone(t, id)
	want := preparing + "begun\n"
	if s.KeeperReturns {
		wantExit(t, *r.Exit, "driver", "succeeded", 0)
		want += "prepared\n" + driving + "trained\n"
	} else {
		wantExit(t, *r.Exit, "rayctl", "lost", runstate.CodeLost)
	}
	if out := s.shown(t, id); out != want {
		t.Errorf("output %q, want %q", out, want)
	}
}
