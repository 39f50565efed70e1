package conformance

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// keeperKilled: if the substrate restarts the keeper the run continues. Otherwise the run is lost and only the driver's output so far is kept.
func keeperKilled(t *testing.T, s *suite) {
	const code = 4
	seconds, seen := 20, lines(3)
	if !s.KeeperReturns {
		seconds = 90 // no driver ends by itself, also where a client sees its first lines late, as on NFS
	}
	sp := s.spec(t, linesDriver(seconds, code))
	id := s.launch(t, sp)
	shown := s.following(t, id)
	s.awaitPrinted(t, id, seen)
	s.KillKeeper(t, id)
	got := shown()
	if s.endsWithoutKeeper(t, id, got, seconds, code) {
		return
	}
	if !strings.HasPrefix(lines(seconds), got) || !strings.HasPrefix(got, seen) || !strings.HasSuffix(got, "\n") {
		t.Errorf("shown: %q", got)
	}
	s.wantOutput(t, id, got, got)
}

// endsWithoutKeeper waits for the end of a run whose keeper was killed. It returns true if the keeper came back and the driver finished with all of its
// lines; else the run must be lost.
func (s *suite) endsWithoutKeeper(t *testing.T, id launcher.ID, shown string, seconds, code int) bool {
	t.Helper()
	r := s.untilGone(t, id)
	if s.KeeperReturns {
		wantExit(t, *r.Exit, "driver", "driver-failed", code)
		s.wantOutput(t, id, shown, lines(seconds))
		return true
	}
	s.wantLost(t, id, r)
	return false
}

// keeperKilledEarly kills the keeper before all nodes are ALIVE. kuberay's TestKeeperLostAround covers a keeper that loses its disk.
func keeperKilledEarly(t *testing.T, s *suite) {
	const seconds, code = 3, 4
	sp := s.spec(t, linesDriver(seconds, code))
	setup, release := s.Hold(t)
	sp.Setup = setup
	id := s.launch(t, sp)
	shown := s.following(t, id)
	s.until(t, id, "waited for by a keeper", func(st launcher.Status) bool { return s.KeeperReturns || st.Phase == runstate.Starting })
	s.agree(t, id)
	s.KillKeeperProcess(t, id)
	if s.KeeperReturns {
		release(t, id)
	}
	got := shown()
	if s.endsWithoutKeeper(t, id, got, seconds, code) {
		return
	}
	s.wantOutput(t, id, got, "")
}

// keeperKilledEnding: during the driver's grace. The run has the exit that was being carried out, whichever process writes the result.
func keeperKilledEnding(t *testing.T, s *suite) {
	sp := s.spec(t, "exec "+python(strings.Replace(checkpointProgram, "sleep(10)", "sleep(20)", 1)))
	sp.Job.Grace = durationPtr(2 * time.Minute)
	id := s.launch(t, sp)
	shown := s.following(t, id)
	s.awaitPrinted(t, id, "training\n")
	ctx, down := s.context(t), make(chan error, 1)
	go func() { down <- s.l.Terminate(ctx, id, launcher.End{Cause: "down", Message: "ended by the test"}) }()
	s.awaitPrinted(t, id, "checkpointing\n")
	s.KillKeeper(t, id)
	if err := <-down; err != nil {
		t.Errorf("terminate: %v", err)
	}
	if left := s.Allocated(t, id); len(left) > 0 {
		t.Errorf("allocated after Terminate returned: %s", strings.Join(left, ", "))
	}
	want := "training\ncheckpointing\n"
	if s.KeeperReturns {
		want += "saved\n"
	}
	s.wantOutput(t, id, shown(), want)
	r := s.untilGone(t, id)
	wantExit(t, *r.Exit, "rayctl", "down", runstate.CodeInterrupted)
	if !strings.Contains(r.Exit.Message, "ended by the test") || !s.KeeperReturns && !strings.Contains(r.Exit.Message, "keeper was killed") {
		t.Errorf("the reason is not told: %q", r.Exit.Message)
	}
}

// wantLost checks the result of a run whose keeper is not restarted.
func (s *suite) wantLost(t *testing.T, id launcher.ID, r *launcher.Result) {
	t.Helper()
	wantExit(t, *r.Exit, "rayctl", "lost", runstate.CodeLost)
	if !r.Exit.Retryable || !strings.Contains(r.Exit.Message, "keeper was killed") {
		t.Errorf("a lost keeper is retryable and named: %+v", r.Exit)
	}
	if left := s.Allocated(t, id); len(left) > 0 {
		t.Errorf("allocated after the keeper's death: %s", strings.Join(left, ", "))
	}
}

// following collects a run's output from now to its end and tends the cluster as `rayctl run` does; the returned function waits for the end.
func (s *suite) following(t *testing.T, id launcher.ID) (shown func() string) {
	t.Helper()
	var out bytes.Buffer
	ctx, done := s.context(t), make(chan error, 1)
	go func() {
		_, err := launcher.AttachAndReconcile(ctx, s.l, id, launcher.RunOptions{Stdout: &out})
		done <- err
	}()
	return func() string {
		t.Helper()
		if err := <-done; err != nil {
			t.Fatalf("following: %v\nshown: %s", err, short(out.Bytes()))
		}
		return out.String()
	}
}

func (s *suite) awaitPrinted(t *testing.T, id launcher.ID, text string) {
	t.Helper()
	if !s.printed(t, id, text) {
		t.Fatalf("the driver never printed %q", text)
	}
}
