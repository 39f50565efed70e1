package kuberay_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/pace"
)

// TestReadersEndNothing: who may only read sees why a cluster cannot start, lists it, watches it, and gets the end that is due, and so does a client that may do
// everything, even the one that has launched it. gc ends it, and so does a run or up that waits for it (TestNoImage).
func TestReadersEndNothing(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := named("hopeless", "echo never")
	s.Sections = kuberayspec.In(&kuberayspec.Section{KeeperImage: "rayproject/ray:2.60.0"})
	s.Image = "registry.invalid/NoSuch:2.60.0" // capitals make it invalid: a reason that is not waited for
	id, err := b.l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	b.nothingLeft(t, id)
	for name, l := range map[string]launcher.Launcher{
		"may only read": b.limited(t, onlyReading(minimalRole(t))), "another client": b.limited(t, minimalRole(t)), "its own client": b.l,
	} {
		all, err := l.List(t.Context(), launcher.Selector{})
		if err != nil || len(all) != 1 || all[0].Name != s.Name {
			t.Errorf("%s: listed: %+v, %v", name, all, err)
		}
		if _, err := l.Result(t.Context(), id); !errors.Is(err, launcher.ErrNotEnded) {
			t.Errorf("%s: result: %v", name, err)
		}
		watchFor(t, l, id, "InvalidImageName", 6*time.Second) // one more look, and some
	}
	for _, dryRun := range []bool{true, false} {
		found, err := b.limited(t, minimalRole(t)).Reconcile(t.Context(), launcher.Scope{DryRun: dryRun})
		if err != nil || len(found) != 1 || found[0].Name != s.Name || !strings.Contains(found[0].Why, s.Image) {
			t.Errorf("gc, dry run %v: %+v, %v", dryRun, found, err)
		}
	}
	if r, err := b.l.Result(t.Context(), id); err != nil || r.Exit.Cause != runstate.CauseStartFailed {
		t.Errorf("result: %+v, %v", r, err)
	}
	b.endsUnwatched(t, s)
}

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

// watchFor watches until the reason is seen and an end is due for it, and then on for a while, in which the cluster must not end.
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
			case st.Reason.Code == reason && st.Due != nil && enough == nil:
				enough = time.After(while)
			}
		case <-enough:
			return
		}
	}
}

// endsUnwatched: a keeper that may look at its pods ends a start that cannot succeed, although no client watches or may change anything.
func (b bed) endsUnwatched(t *testing.T, s *spec.ClusterSpec) {
	s.Name = "unwatched"
	kuberayspec.Of(s).KeeperServiceAccountName = b.account(t, "pod-watcher", permit("pods", "list", "watch"))
	id, err := b.l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	b.nothingLeft(t, id)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reader := b.limited(t, onlyReading(minimalRole(t)))
	for {
		r, err := reader.Result(ctx, id)
		if errors.Is(err, launcher.ErrNotEnded) && sleep.For(ctx, time.Second) {
			continue
		}
		if err != nil || r.Exit.Cause != runstate.CauseStartFailed || !strings.Contains(r.Exit.Message, "cannot be pulled: ") || !strings.Contains(r.Exit.Message, s.Image) {
			t.Errorf("result: %+v, %v", r, err)
		}
		return
	}
}

// TestVerbsThatOnlyRead: by the API server's audit log the verbs that read have sent nothing but get, list and watch, of a user who may do everything
// that rayctl does, while a run lives, at its end, and afterwards; and neither has the client that launched it, while it watched.
func TestVerbsThatOnlyRead(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	own := b.limited(t, minimalRole(t))
	id, err := own.Launch(t.Context(), named("read", waitingDriver), launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	b.nothingLeft(t, id)
	b.process(t, "ray.io/cluster="+string(id), "echo begun; until") // of waitingDriver
	launch := len(b.Requests(t, b.namespace))
	watched := make(chan launcher.Status)
	go func() { watched <- b.lastSeen(t, own, id) }()
	u := newUser(t, b.LimitedKubeconfig(t, b.namespace, minimalRole(t)...))
	read := func(want string, args ...string) { u.succeeds(t, want, append(args, "--launcher", "kuberay")...) }
	read("read", "ls")
	read("read", "ls", "--others", "-o", "json")
	read("Ready", "status", "read")
	read("begun\n", "logs", "read")
	read("read-1", "jobs", "read")
	read("", "history")
	u.succeeds(t, "read", "__complete", "down", "--launcher", "kuberay", "")
	followed := make(chan result)
	go func() { followed <- u.does(t, "logs", "-f", "read", "--launcher", "kuberay") }()
	go func() { followed <- u.does(t, "status", "-w", "read", "--launcher", "kuberay") }()
	b.release(t, id)
	for range 2 {
		if a := <-followed; a.code != 0 {
			t.Errorf("code %d: %s%s", a.code, a.out, a.notes)
		}
	}
	if last := <-watched; last.Phase != runstate.Gone || last.Exit == nil || last.Exit.Cause != runstate.CauseSucceeded {
		t.Errorf("the launching client has seen last: %+v", last)
	}
	if _, err := own.Result(t.Context(), id); err != nil {
		t.Errorf("the launching client's result: %v", err)
	}
	read("done\n", "logs", "read")
	read("succeeded", "status", "read")
	read("read", "history")
	requests := b.Requests(t, b.namespace)[launch:]
	for _, r := range requests {
		if forwards := r.Object != nil && r.Object.Subresource == "portforward"; !forwards && !slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
			t.Errorf("%s %s", r.Verb, r.URI)
		}
	}
	if len(requests) < 20 {
		t.Errorf("the audit log has %d requests only", len(requests))
	}
}

// lastSeen watches until the end, and returns the last status.
func (b bed) lastSeen(t *testing.T, l launcher.Launcher, id launcher.ID) (last launcher.Status) {
	statuses, err := l.Watch(t.Context(), id)
	if err != nil {
		t.Error(err)
		return last
	}
	for last = range statuses {
		continue
	}
	return last
}
