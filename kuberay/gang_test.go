package kuberay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/kubetest"
)

// TestGang is the gang proof of the GPU decision guide: 8 GPUs, two clusters of 5 one-GPU workers. Exactly one runs whole while the other
// waits whole, with a reason; then the other runs.
func TestGang(t *testing.T) {
	b := newBed(t)
	var gangs []*watchedRun
	for _, name := range []string{"one", "two"} {
		s, n, worker := named(name, waitingDriver), 5, smallNode()
		worker.GPUs = 1
		s.Workers = []spec.WorkerGroup{{Name: "w", Replicas: &n, NodeResources: worker}}
		gangs = append(gangs, b.begin(t, b.l, s))
	}
	runs, waits := gangs[0], gangs[1]
	runs.awaitOne(t, waits)
	if !runs.hasPrinted("begun\n") {
		runs, waits = waits, runs
	}
	if whole, none := b.scheduled(t, runs.id), b.scheduled(t, waits.id); whole != 6 || none != 0 {
		t.Errorf("%d pods of %s have a node, and %d of %s", whole, runs.id, none, waits.id)
	}
	waits.until(t, "a reason to wait", func(st launcher.Status) bool { return st.Phase == runstate.Queued && st.Reason.Message != "" })
	for _, r := range gangs { // ls and status: one observation
		kubetest.Await(t, "ls and status of "+string(r.id)+" to agree", func(ctx context.Context) error {
			listed, watched, err := conformance.Looks(ctx, b.l, r.id)
			if err == nil && listed != watched {
				err = fmt.Errorf("ls: %s\nstatus: %s", listed, watched)
			}
			return err
		})
	}
	b.release(t, runs.id)
	runs.wantEnd(t, "succeeded", 0, "begun\ndone\n")
	waits.printed(t, "begun\n")
	b.release(t, waits.id)
	waits.wantEnd(t, "succeeded", 0, "begun\ndone\n")
}

// awaitOne waits until the driver of this run or of the other has begun.
func (r *watchedRun) awaitOne(t *testing.T, other *watchedRun) {
	t.Helper()
	for {
		mine, theirs := r.change(func() {}), other.change(func() {})
		if r.hasPrinted("begun\n") || other.hasPrinted("begun\n") {
			return
		}
		select {
		case <-mine:
		case <-theirs:
		case <-r.done:
			t.Fatalf("%s ended: %v", r.id, r.err)
		case <-other.done:
			t.Fatalf("%s ended: %v", other.id, other.err)
		}
	}
}

// hasPrinted reports whether the driver's output has the text.
func (r *watchedRun) hasPrinted(text string) bool { return strings.Contains(r.printedSoFar(), text) }
