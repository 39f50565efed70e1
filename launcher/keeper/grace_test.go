package keeper_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Drivers submitted to a cluster without a job of its own are ended like a run's driver: SIGTERM, orders.grace, SIGKILL.
func TestGraceOfSubmissions(t *testing.T) {
	for name, end := range map[string]keeper.End{"down": {Cause: runstate.CauseDown}, "down now": {Cause: runstate.CauseDown, Now: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "", func(o *keeper.Orders) { o.Grace = 60 }).start(nil)
			r.commit(keeper.Commit{})
			ready := r.state("ready", func(s *runstate.State) bool { return s.Phase == runstate.Ready })
			ray, err := dashboardclient.New(dashboardclient.Config{URL: ready.Head.Dashboard, Token: r.token})
			r.must(err)
			t.Cleanup(ray.Close)
			dir := t.TempDir()
			for i := range 2 { // longer than Ray's own 3 s
				_, err := ray.SubmitJob(t.Context(), dashboardclient.SubmitRequest{Entrypoint: fmt.Sprintf(
					`trap 'sleep 6; echo > %[1]s/saved-%[2]d; exit' TERM; echo > %[1]s/started-%[2]d; sleep 600 & wait`, dir, i)})
				r.must(err)
			}
			files := func(pattern string) int {
				found, err := filepath.Glob(filepath.Join(dir, pattern))
				r.must(err)
				return len(found)
			}
			r.eventually("both drivers run", func() bool { return files("started-*") == 2 })
			want := 2
			if end.Now {
				want = 0
			}
			for range 40 { // repeated requests: the first one and its grace count
				if _, err := r.client().End(t.Context(), end); err != nil {
					break // it has ended
				}
				time.Sleep(50 * time.Millisecond)
			}
			if s := r.result(); s.Exit.Cause != runstate.CauseDown || files("saved-*") != want {
				t.Errorf("exit %+v; %d drivers had their grace, want %d", s.Exit, files("saved-*"), want)
			}
		})
	}
}

// After lifetime.max has ended an attempt another attempt follows while restarts.timeLimit lasts. lifetime.max applies to each attempt.
func TestTimeLimitRestarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, `trap 'echo saved; exit' TERM; echo "attempt $RAYCTL_ATTEMPT $RAYCTL_RESTART_REASON"; sleep 600 & wait`, func(o *keeper.Orders) {
		o.Lifetime.Max, o.Job.Restarts.TimeLimit = 3600, 1
	}).start(nil)
	r.commit(keeper.Commit{})
	for attempt := 1; attempt <= 2; attempt++ {
		s := r.state("the attempt runs", func(s *runstate.State) bool { return s.Attempt == attempt && s.Job.State == "RUNNING" })
		if left := s.Deadlines.Max.Sub(s.Since); left.Minutes() < 50 {
			t.Errorf("attempt %d has %s", attempt, left)
		}
		r.eventually("its line", func() bool {
			text, err := os.ReadFile(filepath.Join(string(r.dir), keeper.DriverLog))
			return err == nil && strings.Contains(string(text), fmt.Sprintf("attempt %d", attempt))
		})
		_, err := r.client().Extend(t.Context(), keeper.Extend{Max: ptr(0.1)}) // reached after 0.1 s
		r.must(err)
	}
	s := r.result()
	if s.Exit.Cause != runstate.CauseMax || s.Exit.Code != 124 || len(s.Attempts) != 2 || s.Attempts[0].Cause != runstate.CauseTimeLimit {
		t.Errorf("exit %+v, attempts %+v", s.Exit, s.Attempts)
	}
	first, err := os.ReadFile(filepath.Join(string(r.dir), "driver-1.log"))
	r.must(err)
	// Ray may print a line of its own in between.
	if !strings.Contains(string(first), "attempt 1 \n") || !strings.HasSuffix(string(first), "saved\n") ||
		!strings.Contains(r.log(), "attempt 2 time-limit\n") || !strings.HasSuffix(r.log(), "saved\n") {
		t.Errorf("output %q, then %q", first, r.log())
	}
}
