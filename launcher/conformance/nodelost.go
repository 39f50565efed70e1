package conformance

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// NodeLost checks clusters that lose the node of keeper and head: before the gang is complete, while the driver runs, and during the driver's grace.
// lose removes the nodes of the three clusters and returns when the substrate has given the nodes up. back, if not nil, is called when all three clusters
// have ended. NodeLost is not a scenario of Run, because other clusters would lose their nodes too.
func NodeLost(t *testing.T, c Config, lose func(t *testing.T, ids []launcher.ID) (back func())) {
	s := newSuite(t, c)
	early, running, ending := s.lostEarly(t), s.lostRunning(t), s.lostEnding(t)
	back := lose(t, []launcher.ID{early.id, running.id, ending.id})
	for _, l := range []lostWithItsNode{early, running, ending} {
		t.Run(l.moment, l.check)
	}
	if back != nil {
		back()
	}
}

// lostWithItsNode is a cluster that is about to lose its keeper's node, with the check to run afterwards.
type lostWithItsNode struct {
	moment string
	id     launcher.ID
	check  func(t *testing.T)
}

// lostEarly: before a driver has begun. If the keeper returns, the gang completes and the driver runs. Otherwise the run is lost, which is retryable.
func (s *suite) lostEarly(t *testing.T) lostWithItsNode {
	const seconds, code = 3, 4
	sp := s.spec(t, linesDriver(seconds, code))
	setup, release := s.Hold(t)
	sp.Setup = setup
	id := s.launch(t, sp)
	shown := s.following(t, id)
	s.until(t, id, "waited for by a keeper", func(st launcher.Status) bool { return st.Phase == runstate.Starting })
	return lostWithItsNode{"before the gang is there", id, func(t *testing.T) {
		if s.KeeperReturns {
			release(t, id)
		}
		if got := shown(); !s.endsWithoutNode(t, id, got, seconds, code) {
			s.wantOutput(t, id, got, "")
		}
	}}
}

// endsWithoutNode is endsWithoutKeeper for a keeper that was lost with its node and was not killed.
func (s *suite) endsWithoutNode(t *testing.T, id launcher.ID, shown string, seconds, code int) bool {
	t.Helper()
	r := s.untilGone(t, id)
	if s.KeeperReturns {
		wantExit(t, *r.Exit, "driver", "driver-failed", code)
		s.wantOutput(t, id, shown, lines(seconds))
		return true
	}
	s.wantLostNode(t, id, r)
	return false
}

func (s *suite) wantLostNode(t *testing.T, id launcher.ID, r *launcher.Result) {
	t.Helper()
	wantExit(t, *r.Exit, "rayctl", "lost", runstate.CodeLost)
	if !r.Exit.Retryable || len(r.Attempts) > 1 {
		t.Errorf("a lost node is retryable, and the driver began once: %+v, %+v", r.Exit, r.Attempts)
	}
	s.eventually(t, "nothing is allocated", func() bool { return len(s.Allocated(t, id)) == 0 })
}

// lostRunning: the run is lost, no second driver begins, and the output shown and saved has the driver's lines, each once and in order.
func (s *suite) lostRunning(t *testing.T) lostWithItsNode {
	sp := s.named(t, s.TwoGroups(), linesDriver(600, 0))
	id := s.launch(t, sp)
	shown := s.following(t, id)
	s.awaitPrinted(t, id, lines(3))
	return lostWithItsNode{"while the driver runs", id, func(t *testing.T) {
		got := shown()
		r := s.untilGone(t, id)
		s.wantLostNode(t, id, r)
		if !strings.HasPrefix(got, lines(3)) || !strings.HasPrefix(lines(600), got) {
			t.Errorf("shown: %q", got)
		}
		s.wantSaved(t, id, r, lines(600), lines(3))
	}}
}

// wantSaved checks the saved output of a run that lost its node, which has printed all or a beginning of whole: at least what a client was shown is there, but for
// the gaps that the result notes.
func (s *suite) wantSaved(t *testing.T, id launcher.ID, r *launcher.Result, whole, shown string) {
	t.Helper()
	saved := string(s.savedLog(t, id))
	raw, err := r.OpenLog(s.context(t), 0, 0)
	if err != nil {
		t.Fatalf("the log as Ray wrote it: %v", err)
	}
	defer raw.Close()
	all, err := io.ReadAll(raw)
	if err != nil {
		t.Fatalf("the log as Ray wrote it: %v", err)
	}
	if !savedEnough(whole, shown, saved, int64(len(all)-len(saved)), r.Log.Missing) {
		t.Errorf("saved: %q, shown: %q, missing: %v, log: %q", saved, shown, r.Log.Missing, all)
	}
}

// savedEnough reports whether saved is a beginning of whole, and has what was shown but for what is missing: ranges of the log as Ray wrote it, whose own
// lines of so many bytes stand before the driver's. A whole range is left out of saved; all of it, where the head, the keeper and the record were on the node.
func savedEnough(whole, shown, saved string, own int64, missing [][2]int64) bool {
	without := func(text string) string {
		var left strings.Builder
		for i := range len(text) {
			at := own + int64(i)
			if !slices.ContainsFunc(missing, func(m [2]int64) bool { return m[0] <= at && (at < m[1] || m[1] < 0) }) {
				left.WriteByte(text[i])
			}
		}
		return left.String()
	}
	return strings.HasPrefix(without(whole), saved) && strings.HasPrefix(saved, without(shown))
}

// lostEnding: during the driver's grace. The run has the exit that was being carried out.
func (s *suite) lostEnding(t *testing.T) lostWithItsNode {
	sp := s.spec(t, "exec "+python(strings.Replace(checkpointProgram, "sleep(10)", "sleep(500)", 1)))
	sp.Job.Grace = durationPtr(9 * time.Minute)
	id := s.launch(t, sp)
	shown := s.following(t, id)
	s.awaitPrinted(t, id, "training\n")
	ctx, down := s.context(t), make(chan error, 1)
	go func() { down <- s.l.Terminate(ctx, id, launcher.End{Cause: "down", Message: "ended by the test"}) }()
	s.awaitPrinted(t, id, "checkpointing\n")
	return lostWithItsNode{"while the driver has its grace", id, func(t *testing.T) {
		if err := <-down; err != nil {
			t.Errorf("terminate: %v", err)
		}
		const written = "training\ncheckpointing\n"
		if got := shown(); got != written {
			t.Errorf("shown: %q", got)
		}
		r := s.untilGone(t, id)
		wantExit(t, *r.Exit, "rayctl", "down", runstate.CodeInterrupted)
		if !strings.Contains(r.Exit.Message, "ended by the test") {
			t.Errorf("the reason is not told: %q", r.Exit.Message)
		}
		s.wantSaved(t, id, r, written, written)
		s.eventually(t, "nothing is allocated", func() bool { return len(s.Allocated(t, id)) == 0 })
	}}
}
