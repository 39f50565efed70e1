package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/raytest"
)

// checkpointProgram needs 10 s after SIGTERM to write its checkpoint.
const checkpointProgram = `import signal, sys, time
def stop(*_):
    print("checkpointing", flush=True)
    time.sleep(10)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("training", flush=True)
time.sleep(600)`

// interrupt checks that an interrupted driver gets its grace (job.grace).
func interrupt(t *testing.T, s *suite) {
	sp := s.spec(t, "exec "+python(checkpointProgram))
	sp.Job.Grace = durationPtr(60 * time.Second)
	oc, out := s.interrupted(t, sp.Name, launcher.Stop, func(o launcher.RunOptions) (*launcher.Outcome, string) {
		return s.run(t, sp, o)
	})
	wantExit(t, oc.Receipt.Exit, "rayctl", "interrupted", runstate.CodeInterrupted)
	if out != "training\ncheckpointing\nsaved\n" {
		t.Errorf("output %q: the driver did not get its grace", out)
	}
}

// interruptTwice checks that StopNow does not wait for the grace.
func interruptTwice(t *testing.T, s *suite) {
	sp := s.spec(t, "exec "+python(strings.Replace(checkpointProgram, "sleep(10)", "sleep(500)", 1)))
	sp.Job.Grace = durationPtr(550 * time.Second)
	oc, out := s.interrupted(t, sp.Name, launcher.StopNow, func(o launcher.RunOptions) (*launcher.Outcome, string) {
		return s.run(t, sp, o)
	})
	wantExit(t, oc.Receipt.Exit, "rayctl", "interrupted", runstate.CodeInterrupted)
	if strings.Contains(out, "saved") {
		t.Errorf("output %q", out)
	}
}

// interrupted sends Stop once the driver runs. If then is another action, it is sent once the driver checkpoints.
func (s *suite) interrupted(t *testing.T, name string, then launcher.Action, run func(launcher.RunOptions) (*launcher.Outcome, string)) (*launcher.Outcome, string) {
	t.Helper()
	actions := make(chan launcher.Action, 2)
	go func() {
		if !s.printed(t, launcher.ID(name), "training") {
			return
		}
		actions <- launcher.Stop
		if then != launcher.Stop && s.printed(t, launcher.ID(name), "checkpointing") {
			actions <- then
		}
	}()
	return run(launcher.RunOptions{Actions: actions})
}

// printed attaches a second client and waits until the driver has printed the word.
func (s *suite) printed(t *testing.T, id launcher.ID, word string) bool {
	found := make(chan struct{})
	ctx := s.context(t)
	actions := make(chan launcher.Action, 1)
	w := &finder{word: word, found: found}
	for ctx.Err() == nil {
		go func() {
			select {
			case <-found:
				actions <- launcher.Detach
			case <-ctx.Done():
			}
		}()
		if _, err := launcher.Attach(ctx, s.l, id, launcher.RunOptions{Stdout: w, Actions: actions}); err == nil {
			return w.done
		}
		select { // not launched yet
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return false
}

// finder is a writer that closes found after the word.
type finder struct {
	word  string
	text  strings.Builder
	found chan struct{}
	done  bool
}

func (f *finder) Write(p []byte) (int, error) {
	f.text.Write(p)
	if !f.done && strings.Contains(f.text.String(), f.word) {
		f.done = true
		close(f.found)
	}
	return len(p), nil
}

// killedBeforeCommit: a client that dies before the commit, when it has allocated something, leaves nothing, and no driver ever runs. Before that its launch is
// shown as what it is.
func killedBeforeCommit(t *testing.T, s *suite) {
	sp := s.spec(t, "echo never")
	c := s.startClient(t, clientTask{Hang: true}, sp)
	c.await(t, s.Patience, "packing")
	s.eventually(t, "something is allocated", func() bool { return len(s.Allocated(t, launcher.ID(sp.Name))) > 0 })
	Uncommitted(s.context(t), t, s.l, launcher.ID(sp.Name))
	c.kill()
	s.eventually(t, "nothing is allocated", func() bool { return len(s.Allocated(t, launcher.ID(sp.Name))) == 0 })
	if r, err := s.l.Result(s.context(t), launcher.ID(sp.Name)); err == nil && r.Exit.Cause != "abandoned" {
		t.Errorf("an uncommitted launch ended with %+v", r.Exit)
	}
}

// clientsKilled checks that the death of a client after the commit changes nothing: of the one that launched, at the first event that it receives (if it is slow
// on a loaded machine, the cluster may already have started by then), of a second one while the driver runs, which is longer than a client on a loaded machine
// needs to notice it, and of a third one while the run ends.
func clientsKilled(t *testing.T, s *suite) {
	sp := s.spec(t, "echo begun; sleep 30; echo done")
	launched := s.startClient(t, clientTask{}, sp)
	launched.await(t, s.Patience, "Provisioning", "Starting", "Queued", "Ready", "RUNNING")
	launched.kill()
	second, third := s.startClient(t, clientTask{}, sp), s.startClient(t, clientTask{}, sp)
	second.await(t, s.Patience, "RUNNING")
	second.kill()
	third.await(t, s.Patience, "Draining", "SUCCEEDED")
	third.kill()
	r := s.untilGone(t, launcher.ID(sp.Name))
	wantExit(t, *r.Exit, "driver", "succeeded", 0)
	if got := string(s.savedLog(t, launcher.ID(sp.Name))); got != "begun\ndone\n" {
		t.Errorf("output %q", got)
	}
}

// headKilled: the job begins again on another head, with another token of Ray's, as long as it may; then the run is lost.
func headKilled(t *testing.T, s *suite) {
	sp := s.spec(t, "echo begun $RAYCTL_ATTEMPT; exec sleep 600") // exec, because a shell that survives long enough prints that its child was killed
	want := "begun 1\n"
	if !s.OneToken {
		sp.Job.Restarts.NodeFailure = 1
		want += "begun 2\n"
	}
	id, actions := launcher.ID(sp.Name), make(chan launcher.Action)
	go func() {
		if !s.printed(t, id, "begun 1") {
			return
		}
		if s.OneToken {
			s.KillHead(t, id)
			return
		}
		first := s.tokenNow(t, id)
		s.KillHead(t, id)
		if s.printed(t, id, "begun 2") {
			s.anotherToken(t, id, first)
			s.KillHead(t, id)
		}
	}()
	oc, out := s.run(t, sp, launcher.RunOptions{Actions: actions})
	wantExit(t, oc.Receipt.Exit, "rayctl", "lost", runstate.CodeLost)
	if !oc.Receipt.Exit.Retryable || !strings.Contains(oc.Receipt.Exit.Message, "head") {
		t.Errorf("a lost head is retryable and named: %+v", oc.Receipt.Exit)
	}
	if out != want {
		t.Errorf("output %q, want %q", out, want)
	}
}

// endsRay: the driver calls `ray stop` and its like, as launch scripts of frameworks do. Each time the attempt ends with that as its cause, and the next one begins on another
// Ray. There are two in a run: a pod whose container ends three times within a minute counts as one that cannot start.
func endsRay(t *testing.T, s *suite) {
	for stops := range slices.Chunk(raytest.Stops, 2) {
		s.endsRayBy(t, stops)
	}
}

func (s *suite) endsRayBy(t *testing.T, stops []raytest.Stop) {
	t.Helper()
	const code = 7
	sp := s.named(t, s.Alone(), raytest.StopsDriver(stops, code))
	sp.Job.Restarts.NodeFailure = units.Count(len(stops))
	oc, _ := s.run(t, sp, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "driver", "driver-failed", code)
	r, err := s.l.Result(s.context(t), oc.ID)
	if err != nil || len(r.Attempts) != len(stops)+1 {
		t.Fatalf("%v, attempts %+v", err, r)
	}
	for i, stop := range stops {
		if said := r.Attempts[i].Message; !stop.Cause.MatchString(said) {
			t.Errorf("after %s: %q, want %q", stop.Command, said, stop.Cause)
		}
	}
}

// endOnDisconnect: a connected client keeps its run alive for longer than the disconnect time, and the run ends when the client is dead.
func endOnDisconnect(t *testing.T, s *suite) {
	sp := s.spec(t, "sleep 25; echo kept; exec sleep 600")
	c := s.startClient(t, clientTask{Disconnect: disconnect}, sp)
	c.await(t, s.Patience, "RUNNING")
	s.awaitPrinted(t, launcher.ID(sp.Name), "kept\n")
	c.kill()
	r := s.untilGone(t, launcher.ID(sp.Name))
	wantExit(t, *r.Exit, "rayctl", "disconnected", runstate.CodeInterrupted)
	if got := string(s.savedLog(t, launcher.ID(sp.Name))); got != "kept\n" {
		t.Errorf("output %q", got)
	}
}

// disconnect is long enough for a renewal by a client that gets little CPU time.
const disconnect = 20 * time.Second

func (s *suite) eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ctx := s.context(t)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}
