package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// outage is how long the dashboard or the name service is unavailable: twice as long as a head may refuse all connections.
const outage = 60 * time.Second

// lines is what `python lines.py n` prints.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

// dashboardFrozen stops the dashboard's process, as on a machine that swaps. The rest of the cluster stays alive, so the cluster does not end.
func dashboardFrozen(t *testing.T, s *suite) {
	timeline := s.outlives(t, func(id launcher.ID) (back func()) {
		thaw := s.FreezeDashboard(t, id)
		st := s.until(t, id, "said to be silent", func(st launcher.Status) bool { return st.Reason.Code == "HeadSilent" })
		if st.Phase != runstate.Ready || !strings.Contains(st.Reason.Message, "alive: waiting") {
			t.Errorf("phase %s, %q", st.Phase, st.Reason.Message)
		}
		return thaw
	})
	var told []string
	for _, e := range timeline {
		if e.Kind == "head" {
			told = append(told, e.To)
		}
	}
	for i, want := range slices.Repeat([]string{"silent", "answers"}, max(1, (len(told)+1)/2)) { // several pairs on a machine so loaded that Ray itself stops answering
		if i >= len(told) || told[i] != want {
			t.Errorf("the timeline has %v of the head", told)
			break
		}
	}
}

// nameServiceAway: the addresses already known are enough.
func nameServiceAway(t *testing.T, s *suite) {
	s.outlives(t, func(launcher.ID) func() { return s.NameServiceAway(t) })
}

// outlives runs a driver through an outage. Each of the driver's lines is shown and saved once and in order, and its exit code is the run's.
func (s *suite) outlives(t *testing.T, begin func(launcher.ID) (back func())) []runstate.Event {
	t.Helper()
	const seconds, code = 75, 5
	sp := s.spec(t, linesDriver(seconds, code))
	id := launcher.ID(sp.Name)
	var began atomic.Bool
	go func() {
		if s.printed(t, id, "line 3\n") {
			over := time.After(outage)
			back := begin(id)
			began.Store(true)
			<-over
			back()
		}
	}()
	oc, out := s.run(t, sp, launcher.RunOptions{})
	if !began.Load() {
		t.Error("the run ended before the outage began: it has shown nothing")
	}
	wantExit(t, oc.Receipt.Exit, "driver", "driver-failed", code)
	s.wantOutput(t, id, out, lines(seconds))
	r, err := s.l.Result(s.context(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return r.Timeline
}

// wantOutput compares the output shown to a client and the saved output.
func (s *suite) wantOutput(t *testing.T, id launcher.ID, shown, want string) {
	t.Helper()
	for what, got := range map[string][]byte{"shown": []byte(shown), "saved": s.savedLog(t, id)} {
		if !bytes.Equal(got, []byte(want)) {
			t.Errorf("%s: %q", what, got)
		}
	}
}
