package kuberay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/kubetest"
)

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
