package kuberay_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestKeeperKilledAgain kills the keeper's process three times and its pod once, in `make conformance` seven times and three times: the run, which has a working
// directory, a runtime environment and a secret, goes on, with its output whole and an account as if there had been one keeper. Kubernetes takes 10, 20 and 40 s to
// make another pod; until then DNS does not resolve the keeper's name. Later keepers, in the same pod and in another, know that the run's limit was moved.
// Then the client's credentials expire.
func TestKeeperKilledAgain(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s, pay := whole(t, "tough")
	s.Lifetime.Queue, s.Lifetime.Max = units.Limit(time.Hour), units.Limit(10*time.Minute)
	g := b.newAPIProxy(t)
	r := b.beginWith(t, g.launcher(), s, pay)
	r.printed(t, "begun\n")
	b.wantFirstStatus(t, r.id)
	b.awaitNote(t, r.id)
	end := b.extends(t, r.id)
	begun := time.Now()
	kills := 4
	if conformance.Whole() {
		kills = 10
	}
	for i := range kills {
		pod, pid := b.keeperProcess(t, r.id)
		if i%3 == 2 {
			b.DeletePods(t, b.namespace, "rayctl.io/role=keeper,rayctl.io/name=tough", 0)
		} else if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("kill the keeper of pod %s: %v", pod, err)
		}
		kubetest.Await(t, "another keeper", func(context.Context) error {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
				return fmt.Errorf("process %d is still there", pid)
			}
			return nil
		})
		if i == 1 || i == 2 {
			end = b.sameEnd(t, r.id, end)
		}
	}
	b.keeperProcess(t, r.id)
	g.credentialsExpire(t, r)
	ran := time.Since(begun).Seconds()
	b.release(t, r.id)
	r.wantEnd(t, "succeeded", 0, "packed enveloped hidden\nbegun\ndone\n")
	r.wantOneAccount(t, ran)
}

// wantFirstStatus: the first status of a new watcher already has the keeper's state.
func (b bed) wantFirstStatus(t *testing.T, id launcher.ID) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	statuses, err := kuberay.New(kuberay.Config{Kubeconfig: b.kubeconfig}).Watch(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	st := <-statuses
	if st.Job == nil || st.Job.State != runstate.JobRunning || len(st.Nodes) == 0 || len(st.Timeline) == 0 || st.Phase != runstate.Ready {
		t.Errorf("the first status: %+v", st)
	}
}

// extends: Kubernetes' own deadline follows a limit that is moved. It returns what later keepers must know, which sameEnd checks.
func (b bed) extends(t *testing.T, id launcher.ID) (first *runstate.State) {
	t.Helper()
	hours := (3 * time.Hour).Seconds()
	first = b.keeperSays(t, id, func(ctx context.Context, k *keeper.Client) (*runstate.State, error) {
		return k.Extend(ctx, keeper.Extend{Max: &hours})
	})
	want := *first.Deadlines.Max
	if err := b.l.Extended(t.Context(), id, first.Deadlines); err != nil {
		t.Fatal(err)
	}
	held, err := b.Core.BatchV1().Jobs(b.namespace).Get(t.Context(), string(id), metav1.GetOptions{})
	if err != nil || held.Status.StartTime.Add(time.Duration(*held.Spec.ActiveDeadlineSeconds)*time.Second).Before(want) {
		t.Errorf("Kubernetes ends it before %s: %+v, %v", want, held.Spec.ActiveDeadlineSeconds, err)
	}
	return first
}

// sameEnd waits for another keeper than before, which has the limit that extends has moved.
func (b bed) sameEnd(t *testing.T, id launcher.ID, before *runstate.State) *runstate.State {
	t.Helper()
	now := b.keeperSays(t, id, func(ctx context.Context, k *keeper.Client) (*runstate.State, error) {
		st, err := k.State(ctx)
		switch {
		case err != nil:
			return nil, err
		case st.Keeper == before.Keeper:
			return nil, errors.New("it is the same keeper")
		case st.Deadlines.Max == nil:
			return nil, errors.New("the head has not answered it yet")
		}
		return st, nil
	})
	if off := now.Deadlines.Max.Sub(*before.Deadlines.Max).Abs(); off > 2*time.Second {
		t.Errorf("the next keeper ends it at %s, want %s", now.Deadlines.Max, before.Deadlines.Max)
	}
	return now
}

// credentialsExpire: a client whose credentials expire during its run reports that, and finds the run again with new ones.
func (g *apiProxy) credentialsExpire(t *testing.T, r *watchedRun) {
	t.Helper()
	g.set(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	})
	r.until(t, "word of the credentials", func(st launcher.Status) bool { return strings.Contains(st.Unreachable, "credentials") })
	g.set(passOn)
}
