package keeper_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Two clusters without a job run side by side. One ends when idle, but not before its submitted job. The other ends when its client disconnects.
func TestIdleAndDisconnect(t *testing.T) {
	t.Parallel()
	idle := newRig(t, "", func(o *keeper.Orders) { o.Lifetime.Idle = 1000; o.Lifetime.Max = 100000 }).start(nil)
	left := newRig(t, "", func(o *keeper.Orders) { o.Lifetime.Disconnect = 1000 }).start(nil)
	idle.commit(keeper.Commit{})
	left.commit(keeper.Commit{})
	s := idle.state("ready", ready)
	if s.Deadlines.Max == nil {
		t.Errorf("deadlines: %+v", s.Deadlines)
	}
	other := left.state("ready", ready)
	if other.EndOnDisconnect != 1000 || other.Head.Address == s.Head.Address || other.Head.Dashboard == s.Head.Dashboard {
		t.Errorf("the other cluster: %+v", other)
	}
	ctx := context.Background()
	r := left.client()
	left.must(r.Renew(ctx))
	now, err := r.Disconnect(ctx, 2*time.Second)
	left.must(err)
	if now.EndOnDisconnect != 2 || now.LastRenewal == nil {
		t.Errorf("after renew and disconnect: %+v", now)
	}
	if s := left.result(); s.Exit.Cause != runstate.CauseDisconnected || s.Exit.Code != 130 {
		t.Errorf("exit: %+v", s.Exit)
	}
	_, err = idle.client().Extend(ctx, keeper.Extend{Max: ptr(60.0), Later: true})
	if err == nil || !strings.Contains(err.Error(), "the cluster would then end earlier than at present: lifetime.max leaves it 1d3h4") {
		t.Errorf("a limit that would shorten: %v", err)
	}
	limit := func(e keeper.Extend) time.Time {
		t.Helper()
		s, err := idle.client().Extend(ctx, e)
		idle.must(err)
		return *s.Deadlines.Max
	}
	before := *s.Deadlines.Max
	if moved := limit(keeper.Extend{MaxBy: ptr(3600.0)}).Sub(before).Round(time.Second); moved != time.Hour {
		t.Errorf("by an hour: %s", moved)
	}
	if moved := limit(keeper.Extend{Max: ptr(900000.0), AtMost: true}).Sub(before).Round(time.Second); moved != time.Hour {
		t.Errorf("at most a later time: %s", moved)
	}
	if !limit(keeper.Extend{Max: ptr(50000.0), AtMost: true}).Before(before) {
		t.Error("at most an earlier time: nothing was changed")
	}
	idle.submit(s, "sleep 6")
	idle.state("the submission is shown", func(s *runstate.State) bool {
		return len(s.Submissions) == 1 && s.Submissions[0].State == runstate.JobRunning && s.Submissions[0].Entrypoint == "sleep 6" && s.Submissions[0].Start != nil
	})
	_, err = idle.client().Extend(ctx, keeper.Extend{Idle: ptr(2.0)})
	idle.must(err)
	s = idle.result()
	if s.Exit.Cause != runstate.CauseIdle || s.Exit.Code != 0 {
		t.Errorf("exit: %+v", s.Exit)
	}
	_, err = left.dir.Token()
	rays, failed := filepath.Glob(filepath.Join(string(left.dir), keeper.RayTokenPrefix+"*"))
	if !errors.Is(err, fs.ErrNotExist) || len(rays) > 0 || failed != nil {
		t.Errorf("the tokens are still there: %v, %v, %v", err, rays, failed)
	}
}

// submit submits a job to the cluster, as `rayctl submit` does.
func (r *rig) submit(s *runstate.State, entrypoint string) {
	r.t.Helper()
	body, err := json.Marshal(map[string]string{"entrypoint": entrypoint, "submission_id": "other"})
	r.must(err)
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.Head.Dashboard+"/api/jobs/", bytes.NewReader(body))
	r.must(err)
	request.Header.Set("Authorization", "Bearer "+r.rayToken())
	response, err := http.DefaultClient.Do(request)
	r.must(err)
	r.must(response.Body.Close())
	if response.StatusCode != http.StatusOK {
		r.t.Fatalf("submit: %s", response.Status)
	}
}
