package keeper_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// The head is lost while job.prepare runs, and again while the driver does: each new cluster is prepared, each attempt has its output, and the driver gets the
// reason. With the third loss the run is lost.
func TestHeadLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, `echo "driver $RAYCTL_ATTEMPT: $RAYCTL_RESTART_REASON"; sleep 100000`, func(o *keeper.Orders) {
		o.Job.Prepare = `echo "prepare $RAYCTL_ATTEMPT"; test $RAYCTL_ATTEMPT != 1 || sleep 100000`
		o.Job.Restarts.NodeFailure = 2
	}).start(nil)
	r.commit(keeper.Commit{})
	before := r.state("job.prepare runs", func(s *runstate.State) bool { return s.Job.Prepares() && s.Job.Prepare.State == runstate.JobRunning })
	r.eventually("it has printed", func() bool { return strings.Contains(r.log(), "prepare 1\n") })
	for attempt := 2; attempt <= 3; attempt++ {
		r.kill(r.pidOf("gcs_server"))
		now := r.state("the driver runs", func(s *runstate.State) bool { return s.Attempt == attempt && running(s) })
		if now.Head.Session == before.Head.Session || now.Job.SubmissionID != fmt.Sprint("job-", attempt) || len(now.Attempts) != attempt-1 || now.Attempts[attempt-2].Cause != runstate.CauseLost {
			t.Errorf("attempt %d: %+v", attempt, now)
		}
		r.eventually("it has printed", func() bool { return strings.Contains(r.log(), fmt.Sprintf("driver %d: lost\n", attempt)) })
		before = now
	}
	r.kill(before.Nodes[0].PID)
	s := r.result()
	if s.Exit.Cause != runstate.CauseLost || s.Exit.Code != 76 || !s.Exit.Retryable || !strings.Contains(s.Exit.Message, "supervisor of node head-0 was killed by signal 9") {
		t.Errorf("exit: %+v", s.Exit)
	}
	if len(s.Attempts) != 3 {
		t.Fatalf("attempts: %+v", s.Attempts)
	}
	for n, want := range map[int]string{1: "prepare 1\n", 2: "driver 2: lost\n", 3: "driver 3: lost\n"} {
		log, err := os.ReadFile(filepath.Join(string(r.dir), keeper.AttemptLog(n)))
		if n == 3 {
			log, err = []byte(r.log()), nil
		}
		r.must(err)
		begin := s.Attempts[n-1].LogBegin
		if n == 1 && begin != runstate.AllPrepare || n > 1 && (begin <= 0 || !strings.Contains(string(log[:begin]), "prepare ") || strings.Contains(string(log[begin:]), "prepare ")) {
			t.Errorf("attempt %d: the driver's log begins at %d of %q", n, begin, log)
		}
		if !strings.Contains(string(log), want) {
			t.Errorf("attempt %d printed %q", n, log)
		}
	}
}
