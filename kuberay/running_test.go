package kuberay_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// waitingDriver goes on when release is called, so that a test breaks things while it surely runs.
const waitingDriver = "echo begun; until [ -e /tmp/go ]; do sleep 0.2; done; echo done"

// stoppingDriver needs until release to save its work after SIGTERM.
const stoppingDriver = `exec python -c '
import os, signal, sys, time
def stop(*_):
    print("stopping", flush=True)
    while not os.path.exists("/tmp/go"):
        time.sleep(0.2)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("begun", flush=True)
while True:
    time.sleep(600)
'`

// job is a small spec with a name and a driver.
func job(name, entrypoint string) *spec.ClusterSpec {
	s := smallSpec()
	s.Name, s.Job.Entrypoint = name, entrypoint
	return s
}

// running is a launcher.Run that a test watches.
type running struct {
	id      launcher.ID
	actions chan launcher.Action
	done    chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	out     bytes.Buffer
	status  launcher.Status
	outcome *launcher.Outcome
	err     error
}

// run takes a spec through launcher.Run in the background. At the test's end the cluster has ended, however that went.
func (b bed) run(t *testing.T, l launcher.Launcher, s *spec.ClusterSpec) *running {
	t.Helper()
	return b.runWith(t, l, s, launcher.Payload{})
}

func (b bed) runWith(t *testing.T, l launcher.Launcher, s *spec.ClusterSpec, pay launcher.Payload) *running {
	t.Helper()
	r := &running{id: launcher.ID(s.Name), actions: make(chan launcher.Action, 1), done: make(chan struct{}), changed: make(chan struct{})}
	b.nothingLeft(t, r.id)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	go func() {
		oc, err := launcher.Run(ctx, l, s, pay, launcher.RunOptions{Stdout: r, Actions: r.actions, OnStatus: func(st launcher.Status) {
			r.change(func() { r.status = st })
		}})
		r.change(func() { r.outcome, r.err = oc, err })
		close(r.done)
	}()
	return r
}

// nothingLeft ends a cluster when the test is over and checks on Kubernetes that nothing of it is left. For a failed test it logs what happened.
func (b bed) nothingLeft(t *testing.T, id launcher.ID) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.story(t, id))
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := b.l.Terminate(ctx, id, launcher.End{Cause: "down", Now: true}); err != nil {
			t.Errorf("terminate %s: %v", id, err)
		}
		if left := b.left(t, id); len(left) > 0 {
			t.Errorf("left of %s: %v\n%s", id, left, b.story(t, id))
		}
	})
}

// change runs do under the lock, wakes all waiting readers, and returns the channel that is closed at the next change.
func (r *running) change(do func()) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	close(r.changed)
	r.changed = make(chan struct{})
	return r.changed
}

// Write takes the driver's output.
func (r *running) Write(p []byte) (int, error) {
	r.change(func() { r.out.Write(p) })
	return len(p), nil
}

// until waits until the client's last status fulfils the condition.
func (r *running) until(t *testing.T, what string, cond func(st launcher.Status) bool) {
	t.Helper()
	r.await(t, what, func() bool { return cond(r.status) })
}

// printed waits until the driver's output has the text.
func (r *running) printed(t *testing.T, text string) {
	t.Helper()
	r.await(t, "output "+text, func() bool { return strings.Contains(r.out.String(), text) })
}

func (r *running) await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for {
		r.mu.Lock()
		ok, changed := cond(), r.changed
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
			continue
		case <-r.done:
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if !cond() {
			t.Fatalf("%s ended before there was %s: %v; last seen: %+v; output %q", r.id, what, r.err, r.status, r.out.String())
		}
		return
	}
}

// ended waits for the end.
func (r *running) ended(t *testing.T) (runstate.Exit, string) {
	t.Helper()
	<-r.done
	if r.err != nil {
		t.Fatalf("run of %s: %v; output %q", r.id, r.err, r.out.String())
	}
	return r.outcome.Receipt.Exit, r.out.String()
}

// wantEnd checks how it ended.
func (r *running) wantEnd(t *testing.T, cause string, code int, output string) runstate.Exit {
	t.Helper()
	e, out := r.ended(t)
	if e.Cause != cause || e.Code != code || code != 0 && e.Message == "" {
		t.Errorf("%s: exit %+v, want %s, %d", r.id, e, cause, code)
	}
	if out != output {
		t.Errorf("%s: output %q, want %q", r.id, out, output)
	}
	return e
}

// release lets the driver go on.
func (b bed) release(t *testing.T, id launcher.ID) {
	t.Helper()
	var out bytes.Buffer
	code, err := b.l.Exec(t.Context(), id, launcher.ExecRequest{Command: []string{"touch", "/tmp/go"}, Stdout: &out, Stderr: &out})
	if err != nil || code != 0 {
		t.Fatalf("release the driver of %s: code %d, %v, %s", id, code, err, out.String())
	}
}

// hasPrinted reports whether the driver's output has the text.
func (r *running) hasPrinted(text string) bool { return strings.Contains(r.printedSoFar(), text) }

func (r *running) printedSoFar() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}
