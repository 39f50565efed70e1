package keeper_test

import (
	"context"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// The client's Watch yields the final document although the keeper exits right after it. The end is by lifetime.total, after which no attempt follows, whatever
// restarts.timeLimit allows.
func TestWatchSeesTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, "true", func(o *keeper.Orders) { o.Lifetime.Total, o.Job.Restarts.TimeLimit = 1.5, -1 }).start(nil)
	r.must(r.dir.Commit(keeper.Commit{}))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.eventually("the API is up", func() bool {
		s, err := r.dir.State()
		return err == nil && s.Keeper.URL != ""
	})
	var last *runstate.State
	begin := time.Now()
	for s, err := range r.client().Watch(ctx) {
		r.must(err)
		last = s
	}
	if last == nil || last.Exit == nil || last.Exit.Cause != runstate.CauseTotal || last.Exit.Code != 124 || len(last.Attempts) > 1 {
		t.Errorf("the last document after %v: %+v", time.Since(begin), last)
	}
}
