package keeper_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Drivers submitted to a cluster without a job of its own are ended like a run's driver: SIGTERM, orders.grace, SIGKILL.
func TestGraceOfSubmissions(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]keeper.End{"down": {Cause: runstate.CauseDown}, "down now": {Cause: runstate.CauseDown, Now: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "", func(o *keeper.Orders) { o.Grace = 60 }).start(nil)
			r.commit(keeper.Commit{})
			ready := r.state("ready", func(s *runstate.State) bool { return s.Phase == runstate.Ready })
			ray, err := dashboardclient.New(dashboardclient.Config{URL: ready.Head.Dashboard, Token: r.rayToken()})
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
