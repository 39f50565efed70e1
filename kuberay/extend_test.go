package kuberay_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestExtend: Kubernetes' own deadline follows a limit that was moved, and so do later keepers, in the same pod and in another.
func TestExtend(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := job("longer", waitingDriver)
	s.Lifetime.Queue, s.Lifetime.Max = units.Limit(time.Hour), units.Limit(10*time.Minute)
	r := b.run(t, b.l, s)
	r.printed(t, "begun\n")
	b.awaitNote(t, r.id)
	hours := (3 * time.Hour).Seconds()
	first := b.keeperSays(t, r.id, func(ctx context.Context, k *keeper.Client) (*runstate.State, error) {
		return k.Extend(ctx, keeper.Extend{Max: &hours})
	})
	want := *first.Deadlines.Max
	if err := b.l.Extended(t.Context(), r.id, first.Deadlines); err != nil {
		t.Fatal(err)
	}
	held, err := b.Core.BatchV1().Jobs(b.namespace).Get(t.Context(), string(r.id), metav1.GetOptions{})
	if err != nil || held.Status.StartTime.Add(time.Duration(*held.Spec.ActiveDeadlineSeconds)*time.Second).Before(want) {
		t.Errorf("Kubernetes ends it before %s: %+v, %v", want, held.Spec.ActiveDeadlineSeconds, err)
	}
	for _, kill := range []func(){
		func() { _, pid := b.keeperProcess(t, r.id); _ = syscall.Kill(pid, syscall.SIGKILL) }, // the next keeper shows whether it hit
		func() { b.DeletePods(t, b.namespace, "rayctl.io/role=keeper,rayctl.io/name=longer", 0) },
	} {
		before := first
		kill()
		first = b.keeperSays(t, r.id, func(ctx context.Context, k *keeper.Client) (*runstate.State, error) {
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
		if off := first.Deadlines.Max.Sub(want).Abs(); off > 2*time.Second {
			t.Errorf("the next keeper ends it at %s, want %s", first.Deadlines.Max, want)
		}
	}
	b.release(t, r.id)
	r.wantEnd(t, "succeeded", 0, "begun\ndone\n")
}

// keeperSays repeats a request to the keeper until it succeeds, and returns the state.
func (b bed) keeperSays(t *testing.T, id launcher.ID, ask func(context.Context, *keeper.Client) (*runstate.State, error)) (st *runstate.State) {
	t.Helper()
	kubetest.Await(t, "the keeper's answer", func(ctx context.Context) error {
		e, err := b.l.Dial(ctx, id, launcher.Keeper)
		if err != nil {
			return fmt.Errorf("dial: %w", err)
		}
		defer e.Close()
		k := launcher.KeeperClient(e)
		defer k.Close()
		st, err = ask(ctx, k)
		return err
	})
	return st
}
