package conformance

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// exitZero checks the normal course of a run: output, exit code, receipt, record, nothing allocated.
func exitZero(t *testing.T, s *suite) {
	sp := s.spec(t, "echo hello from $RAYCTL_RUN attempt $RAYCTL_ATTEMPT")
	var phases []runstate.Phase
	oc, out := s.run(t, sp, launcher.RunOptions{OnStatus: func(st launcher.Status) {
		if len(phases) == 0 || phases[len(phases)-1] != st.Phase {
			phases = append(phases, st.Phase)
		}
	}})
	if want := "hello from " + sp.Name + " attempt 1\n"; out != want {
		t.Errorf("output %q, want %q", out, want)
	}
	wantExit(t, oc.Receipt.Exit, "driver", "succeeded", 0)
	if left := s.Allocated(t, oc.ID); len(left) > 0 {
		t.Errorf("allocated after Run returned: %s", strings.Join(left, ", "))
	}
	if phases[len(phases)-1] != runstate.Gone {
		t.Errorf("phases %v do not end with Gone", phases)
	}
	rc := oc.Receipt
	if rc.Durations.Driver <= 0 || rc.Durations.Starting <= 0 || rc.Usage.NodeSeconds < rc.Usage.BusyNodeSeconds || rc.Usage.BusyNodeSeconds <= 0 {
		t.Errorf("the receipt does not account for the run: %s", mustJSON(t, rc))
	}
	// The record outlives the cluster. A repeated launch finds the record and starts nothing.
	r, err := s.l.Result(s.context(t), oc.ID)
	if err != nil || r.Exit.Code != 0 {
		t.Errorf("result after the end: %v, %v", r, err)
	}
	_, err = s.l.Launch(s.context(t), sp, payloadOf(sp))
	wantCode(t, err, runstate.CodeSpec, launcher.ErrEnded)
}

func exitThree(t *testing.T, s *suite) {
	oc, _ := s.run(t, s.spec(t, "exit 3"), launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "driver", "driver-failed", 3)
	if oc.Receipt.Exit.Retryable {
		t.Error("a driver's own failure is not retryable")
	}
}

func exitSignal(t *testing.T, s *suite) {
	oc, _ := s.run(t, s.spec(t, python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")), launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "driver", "driver-signaled", 128+11)
}

func noSuchDriver(t *testing.T, s *suite) {
	oc, out := s.run(t, s.spec(t, "no-such-program-at-all"), launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "driver", "driver-failed", 127) // the shell's code
	if !strings.Contains(out, "not found") {
		t.Errorf("the shell's words are not in the output: %q", out)
	}
}

// noRuntimeEnv: the driver never runs, so Ray has no log of it and the saved log holds Ray's error message. The package is missing in Ray's store, which
// Ray reports within seconds and in the same way as a package that pip cannot install.
func noRuntimeEnv(t *testing.T, s *suite) {
	sp := s.spec(t, "echo never")
	p := payloadOf(sp)
	p.Packages = func(context.Context) (*launcher.Packages, error) {
		return &launcher.Packages{RuntimeEnv: map[string]any{"working_dir": "gcs://_ray_pkg_0123456789abcdef.zip"}}, nil
	}
	oc, out := s.runWith(t, sp, p, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "rayctl", "submit-failed", runstate.CodeStartFailed)
	saved := string(s.savedLog(t, oc.ID))
	for _, want := range []string{"Traceback (most recent call last)", "_ray_pkg_0123456789abcdef"} {
		if !strings.Contains(saved, want) {
			t.Errorf("no %q in the saved log: %q", want, saved)
		}
	}
	if out != saved {
		t.Errorf("shown: %q\nsaved: %q", out, saved)
	}
}

func maxLifetime(t *testing.T, s *suite) {
	sp := s.spec(t, "sleep 600")
	sp.Lifetime.Max = units.Limit(25 * time.Second)
	oc, _ := s.run(t, sp, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "rayctl", "max", runstate.CodeTimeLimit)
}

// idle checks that an idle cluster without a job of its own ends, and that a job postpones this. The limit is short only once the job is submitted: on a
// busy machine that can take longer than the limit.
func idle(t *testing.T, s *suite) {
	sp := s.spec(t, "")
	sp.Lifetime.Idle = units.Limit(backstop)
	id := s.launch(t, sp)
	s.until(t, id, "ready", func(st launcher.Status) bool { return st.Phase == runstate.Ready })
	s.submit(t, id, "sleep 8")
	short := 3.0
	err := launcher.AskKeeper(s.context(t), s.l, id, func(k *keeper.Client) error {
		_, err := k.Extend(s.context(t), keeper.Extend{Idle: &short})
		return err
	})
	if err != nil {
		t.Fatalf("extend: %v", err)
	}
	r := s.untilGone(t, id)
	wantExit(t, *r.Exit, "rayctl", "idle", 0)
	ready := r.Since
	for _, e := range r.Timeline {
		if e.Kind == "phase" && e.To == string(runstate.Ready) {
			ready = e.At
		}
	}
	if lived := r.Since.Sub(ready); lived < 8*time.Second {
		t.Errorf("the cluster ended %s after it was ready, while a job of 8 s ran", lived)
	}
}

func queueLimit(t *testing.T, s *suite) {
	release := s.Occupy(t)
	defer release()
	sp := s.spec(t, "echo never")
	sp.Lifetime.Queue = units.Limit(5 * time.Second)
	oc, out := s.run(t, sp, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "rayctl", "queue", runstate.CodeQueueTimeout)
	if out != "" {
		t.Errorf("a driver ran: %q", out)
	}
}

func driverRestarts(t *testing.T, s *suite) {
	sp := s.spec(t, python(`import os, sys
n = int(os.environ["RAYCTL_ATTEMPT"])
print("attempt", n, "because", os.environ.get("RAYCTL_RESTART_REASON", ""), flush=True)
sys.exit(0 if n == 3 else 5)`))
	sp.Job.Restarts.Driver = 2
	oc, out := s.run(t, sp, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "driver", "succeeded", 0)
	want := "attempt 1 because \nattempt 2 because driver-failed\nattempt 3 because driver-failed\n"
	if out != want {
		t.Errorf("output %q, want %q", out, want)
	}
	if len(oc.Receipt.Attempts) != 3 || oc.Receipt.Attempts[0].Cause != "driver-failed" {
		t.Errorf("attempts: %s", mustJSON(t, oc.Receipt.Attempts))
	}
}

func setupFails(t *testing.T, s *suite) {
	sp := s.spec(t, "echo never")
	sp.Setup = "echo the licence server is away >&2\nfalse"
	oc, _ := s.run(t, sp, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "rayctl", "start-failed", runstate.CodeStartFailed)
	if !strings.Contains(oc.Receipt.Exit.Message, "the licence server is away") {
		t.Errorf("the reason is not told: %q", oc.Receipt.Exit.Message)
	}
}
