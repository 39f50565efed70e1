package keeper_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/raytest"
)

// No part of the head is seen alive: a proxy closes its connections, and its GCS cannot be reached. The status reports this until lifetime.silence has
// passed; then the cluster is lost.
func TestNothingSeen(t *testing.T) {
	t.Parallel()
	head := raytest.Shared(t, raytest.Ray260)
	proxy := raytest.NewProxy(t, head)
	r := newRig(t, "echo begun; sleep 100000", func(o *keeper.Orders) {
		o.Start = keeper.Start{Mode: keeper.StartExternal, Dashboard: proxy.URL, GCS: "192.0.2.1:6379"} // an unassigned address (RFC 5737)
		o.WatchStdin = false
		o.Job.SubmissionPrefix = o.Name
		o.Lifetime.Silence = 15
	})
	r.token = head.Token
	r.start(nil)
	r.must(r.dir.Commit(keeper.Commit{}))
	r.state("the driver runs", running)
	proxy.Break(func(*http.Request) raytest.Fault { return raytest.Fault{Refuse: true} })
	s := r.state("the silence is told", func(s *runstate.State) bool { return s.Reason.Code == "HeadSilent" })
	if !strings.Contains(s.Reason.Message, "15s") || !slices.ContainsFunc(s.Timeline, aboutHead) {
		t.Errorf("reason: %+v, timeline: %+v", s.Reason, s.Timeline)
	}
	if end := r.result(); end.Exit.Cause != runstate.CauseLost || end.Exit.Code != 76 || !strings.Contains(end.Exit.Message, "lifetime.silence") {
		t.Errorf("exit: %+v", end.Exit)
	}
	if _, err := head.Client(t).StopJob(t.Context(), s.Job.SubmissionID); err != nil {
		t.Errorf("stop the driver that the keeper could not reach: %v", err)
	}
}
