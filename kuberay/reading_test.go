package kuberay_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// onlyReading are the rules with nothing but the verbs that change nothing.
func onlyReading(rules []rbacv1.PolicyRule) (out []rbacv1.PolicyRule) {
	for _, r := range rules {
		r = *r.DeepCopy()
		r.Verbs = slices.DeleteFunc(r.Verbs, func(v string) bool { return !slices.Contains([]string{"get", "list", "watch"}, v) })
		if len(r.Verbs) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// TestReadersEndNothing: who may only read sees why a cluster cannot start, and lists and watches it, and so does a client that may do everything and has
// not launched it; the one that has ends it.
func TestReadersEndNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := job("hopeless", "echo never")
	s.KubeRay = &spec.KubeRay{KeeperImage: "rayproject/ray:2.60.0"}
	s.Image = "registry.invalid/NoSuch:2.60.0" // capitals make it invalid: a reason that is not waited for
	id, err := b.l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]launcher.Launcher{"may only read": b.limited(t, onlyReading(minimalRole(t))), "another client": b.limited(t, minimalRole(t))} {
		all, err := l.List(t.Context(), launcher.Selector{})
		if err != nil || len(all) != 1 || all[0].Name != s.Name {
			t.Errorf("%s: listed: %+v, %v", name, all, err)
		}
		if _, err := l.Result(t.Context(), id); !errors.Is(err, launcher.ErrNotEnded) {
			t.Errorf("%s: result: %v", name, err)
		}
		watchFor(t, l, id, "InvalidImageName", 12*time.Second) // two looks, and some
	}
	outcome, err := launcher.Attach(t.Context(), b.l, id, launcher.RunOptions{})
	if err != nil || outcome.Receipt.Exit.Cause != runstate.CauseStartFailed {
		t.Errorf("its own client: %+v, %v", outcome, err)
	}
	b.nothingLeft(t, id)
}

// watchFor watches until the reason is seen, and then on for a while, in which the cluster must not end.
func watchFor(t *testing.T, l launcher.Launcher, id launcher.ID, reason string, while time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	statuses, err := l.Watch(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	var enough <-chan time.Time
	for {
		select {
		case st, open := <-statuses:
			switch {
			case !open || st.Phase.Ended() || st.Phase == runstate.Draining:
				t.Fatalf("it ends: %+v", st)
			case st.Reason.Code == reason && enough == nil:
				enough = time.After(while)
			}
		case <-enough:
			return
		}
	}
}
