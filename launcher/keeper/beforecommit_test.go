package keeper_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// A cluster whose setup fails may end before its client has committed the launch. The client receives the end when it commits.
func TestEndBeforeCommit(t *testing.T) {
	t.Parallel()
	early := func(lease float64) *rig {
		r := newRig(t, "echo never", func(o *keeper.Orders) {
			noHead(o)
			o.Lifetime.Lease = lease
		})
		r.start(nil)
		r.state("it waits for the head", func(s *runstate.State) bool { return s.Phase == runstate.Provisioning })
		_, err := r.client().End(context.Background(), keeper.End{Cause: runstate.CauseStartFailed, Message: "setup failed"})
		r.must(err)
		return r
	}
	r := early(600)
	s := r.state("it drains", func(s *runstate.State) bool { return s.Phase == runstate.Draining })
	if _, err := r.dir.Result(); !errors.Is(err, fs.ErrNotExist) || s.Exit != nil {
		t.Errorf("the end was recorded before anybody could hear of it: %v, %+v", err, s.Exit)
	}
	_, err := r.client().Commit(context.Background(), keeper.Commit{})
	r.must(err)
	if end := r.result(); end.Exit.Cause != runstate.CauseStartFailed || end.Exit.Message != "setup failed" || !end.Committed {
		t.Errorf("a client that committed late got %+v", end.Exit)
	}
	if end := early(10).result(); end.Exit.Cause != runstate.CauseAbandoned || !strings.Contains(end.Exit.Message, "setup failed") {
		t.Errorf("for a client that is dead: %+v", end.Exit)
	}
	damaged := early(600)
	damaged.state("it drains", func(s *runstate.State) bool { return s.Phase == runstate.Draining }) // otherwise the damaged file might cause the end
	damaged.must(os.WriteFile(filepath.Join(string(damaged.dir), "commit"), []byte("{"), 0o600))
	if end := damaged.result(); end.Exit.Cause != runstate.CauseStartFailed || end.Exit.Message != "setup failed" {
		t.Errorf("with a damaged commit: %+v", end.Exit)
	}
}

func TestClientDiesBeforeCommit(t *testing.T) {
	t.Parallel()
	r := newRig(t, "true", nil).start(nil)
	r.eventually("Ray is starting", func() bool { return len(r.directories()) == 1 })
	r.must(r.stdin.Close())
	if s := r.result(); s.Exit.Cause != runstate.CauseAbandoned {
		t.Errorf("exit: %+v", s.Exit)
	}
}
