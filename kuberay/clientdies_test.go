package kuberay_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestClientDiesBetweenWrites lets clients live for 1 to 7 writes of their launches; after them nothing of theirs reaches Kubernetes any more,
// as after kill -9. All of it ends by itself, except that a Job that never got a keeper stays, without pods, until somebody's `down` or the
// next launch of that name: who launches it again waits as long as a client may be alive, and gets it, whatever it was to be.
func TestClientDiesBetweenWrites(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	name := func(n int) string { return fmt.Sprintf("dies-%d", n) }
	again := map[int]string{1: "echo never", 2: "echo another", launchWrites: "echo another"}
	var all sync.WaitGroup
	for n := 1; n <= launchWrites; n++ {
		b.nothingLeft(t, launcher.ID(name(n)))
		ctx, die := context.WithCancel(t.Context())
		defer die()
		g, done := b.newAPIProxy(t), new(atomic.Int32)
		g.set(dieAfter(n, done, die))
		all.Go(func() {
			_, err := g.launcher().Launch(ctx, named(name(n), "echo never"), launcher.Payload{})
			if err == nil || int(done.Load()) != n {
				t.Errorf("the client that was to die after %d writes died after %d: %v", n, done.Load(), err)
			}
			if driver := again[n]; driver != "" {
				b.launchAgain(t, named(name(n), driver))
			}
		})
	}
	all.Wait()
	for n := 1; n <= launchWrites; n++ {
		if again[n] != "" {
			continue
		}
		kubetest.Await(t, "the end of "+name(n), func(context.Context) error {
			left := b.allocated(t, launcher.ID(name(n)))
			for _, object := range left {
				if n > 3 || strings.HasPrefix(object, "pods/") {
					return fmt.Errorf("left: %v", left)
				}
			}
			return nil
		})
	}
}

// launchWrites are those of a launch before its commit: Job, Secret, Service, the Job's release, RayCluster, PodGroup, record.
const launchWrites = 7

// launchAgain launches a name that a client has left half made.
func (b bed) launchAgain(t *testing.T, s *spec.ClusterSpec) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := b.l.Launch(ctx, s, launcher.Payload{}); err != nil {
		t.Errorf("launch %s again: %v", s.Name, err)
		return
	}
	secret, err := b.Core.CoreV1().Secrets(b.namespace).Get(ctx, s.Name+"-rayctl", metav1.GetOptions{})
	if err != nil || secret.Data["commit.json"] == nil || !strings.Contains(string(secret.Data["spec.json"]), s.Job.Entrypoint) {
		t.Errorf("%s is not what was launched last: %v", s.Name, err)
	}
	if err := b.l.Terminate(ctx, launcher.ID(s.Name), launcher.End{Cause: "down", Now: true}); err != nil {
		t.Errorf("terminate %s: %v", s.Name, err)
	}
}

// TestClientDiesWhileCommitting: the client dies after it noted the commit and before the keeper received it. The next launch of the name completes the commit,
// and a keeper in another pod reads it.
func TestClientDiesWhileCommitting(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := named("noted", waitingDriver)
	b.nothingLeft(t, "noted")
	ctx, die := context.WithCancel(t.Context())
	defer die()
	g := b.newAPIProxy(t)
	g.set(func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		switch {
		case ctx.Err() != nil:
			cutConnection(w)
		case r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/secrets/noted-rayctl"):
			pass.ServeHTTP(httptest.NewRecorder(), r)
			die()
			cutConnection(w)
		default:
			pass.ServeHTTP(w, r)
		}
	})
	if _, err := g.launcher().Launch(ctx, s, launcher.Payload{}); launcher.ExitCode(err) != runstate.CodeInterrupted {
		t.Fatalf("the client that was to die: %v", err)
	}
	committed := func(want bool, not *runstate.State) *runstate.State {
		return b.keeperSays(t, "noted", func(ctx context.Context, k *keeper.Client) (*runstate.State, error) {
			st, err := k.State(ctx)
			switch {
			case err != nil:
				return nil, err
			case not != nil && st.Keeper == not.Keeper:
				return nil, errors.New("it is the same keeper")
			case st.Committed != want:
				return nil, fmt.Errorf("committed: %v", st.Committed)
			}
			return st, nil
		})
	}
	committed(false, nil)
	conformance.Uncommitted(t.Context(), t, b.l, "noted")
	if _, err := b.l.Launch(t.Context(), s, launcher.Payload{}); err != nil {
		t.Fatalf("launch it again: %v", err)
	}
	first := committed(true, nil)
	b.killKeeper(t, "noted")
	committed(true, first)
}
