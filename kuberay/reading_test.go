package kuberay_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/pace"
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
	pace.Parallel(t)
	b := newBed(t)
	s := job("hopeless", "echo never")
	s.Sections = kuberayspec.In(&kuberayspec.Section{KeeperImage: "rayproject/ray:2.60.0"})
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

// TestVerbsThatOnlyRead: by the API server's audit log the verbs that read have sent nothing but get, list and watch, of a user who may do everything
// that rayctl does, while a run lives that somebody else has launched, at its end, and afterwards.
func TestVerbsThatOnlyRead(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	id, err := b.l.Launch(t.Context(), job("read", waitingDriver), launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	b.nothingLeft(t, id)
	u := newUser(t, b.LimitedKubeconfig(t, b.namespace, minimalRole(t)...))
	read := func(want string, args ...string) { u.succeeds(t, want, append(args, "--launcher", "kuberay")...) }
	b.process(t, "ray.io/cluster="+string(id), "echo begun; until") // of waitingDriver
	read("read", "ls")
	read("read", "ls", "--others", "-o", "json")
	read("Ready", "status", "read")
	read("begun\n", "logs", "read")
	read("read-1", "jobs", "read")
	read("", "history")
	u.succeeds(t, "read", "__complete", "down", "--launcher", "kuberay", "")
	followed := make(chan answer)
	go func() { followed <- u.does(t, "logs", "-f", "read", "--launcher", "kuberay") }()
	go func() { followed <- u.does(t, "status", "-w", "read", "--launcher", "kuberay") }()
	b.release(t, id)
	for range 2 {
		if a := <-followed; a.code != 0 {
			t.Errorf("code %d: %s%s", a.code, a.out, a.notes)
		}
	}
	read("done\n", "logs", "read")
	read("succeeded", "status", "read")
	read("read", "history")
	requests := b.Requests(t, b.namespace)
	for _, r := range requests {
		if forwards := r.Object != nil && r.Object.Subresource == "portforward"; !forwards && !slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
			t.Errorf("%s %s", r.Verb, r.URI)
		}
	}
	if len(requests) < 20 {
		t.Errorf("the audit log has %d requests only", len(requests))
	}
}
