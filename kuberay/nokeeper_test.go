package kuberay_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/pace"
)

// TestNoKeeper: the error of a user who may not create Jobs names the missing permission; with kuberay.keeper: none the same user has runs.
func TestNoKeeper(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	l := b.limited(t, keeperlessRole(t))
	_, err := l.Launch(t.Context(), named("refused", "echo never"), launcher.Payload{})
	if launcher.ExitCode(err) != runstate.CodePermission || !strings.Contains(err.Error(), "create jobs.batch") {
		t.Errorf("code %d: %v", launcher.ExitCode(err), err)
	}
	keeperless := func(name, entrypoint string) *spec.ClusterSpec {
		s := named(name, entrypoint)
		s.Sections = kuberayspec.In(&kuberayspec.Section{Keeper: "none"})
		return s
	}
	for _, check := range l.Check(t.Context(), keeperless("any", "echo never")) {
		if !check.OK {
			t.Errorf("doctor: %s: %s", check.Name, check.Detail)
		}
	}
	limited := keeperless("ends", stoppingDriver)
	limited.Lifetime.Max = units.Limit(time.Hour)
	runs, ends := b.begin(t, l, keeperless("runs", "echo kept here; exit 3")), b.begin(t, l, limited)
	runs.wantEnd(t, "driver-failed", 3, "kept here\n")
	ends.printed(t, "begun\n")
	// gc ends it when its client, which ends it at lifetime.max, must be gone: by then this one is not.
	for ahead, want := range map[time.Duration][]launcher.Collected{
		0: nil, time.Hour: nil, 2 * time.Hour: {{What: "cluster", Name: "ends", Why: "lifetime.max has passed, and the client that kept it has ended"}},
	} {
		later := kuberay.New(kuberay.Config{Kubeconfig: b.LimitedKubeconfig(t, b.namespace, keeperlessRole(t)...), Now: func() time.Time { return time.Now().Add(ahead) }})
		if found, err := later.Reconcile(t.Context(), launcher.Scope{DryRun: true}); err != nil || !slices.Equal(found, want) {
			t.Errorf("gc in %s: %+v, %v, want %+v", ahead, found, err, want)
		}
	}
	ends.actions <- launcher.Stop
	ends.wantEnd(t, "interrupted", runstate.CodeInterrupted, "begun\nstopping\n") // its grace is 3 s
	b.NothingLeft(t, b.namespace, nil)
}

// keeperlessRole may do what kuberay.keeper: none needs, and may not touch Jobs.
func keeperlessRole(t *testing.T) (rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, r := range minimalRole(t) {
		switch r.Resources[0] {
		case "jobs":
			r.Verbs = []string{"get", "list", "watch"}
		case "services":
			continue
		case "rayclusters":
			r.Verbs = append(r.Verbs, "delete")
		}
		rules = append(rules, r)
	}
	return rules
}

// TestNoKeeperNoJob: a cluster for work by hand, which any client ends.
func TestNoKeeperNoJob(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	l := b.limited(t, keeperlessRole(t))
	s := named("by-hand", "")
	s.Sections = kuberayspec.In(&kuberayspec.Section{Keeper: "none"})
	b.nothingLeft(t, "by-hand")
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	statuses, err := l.Watch(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	for st := range statuses {
		if st.Phase == runstate.Ready {
			break
		}
	}
	if ctx.Err() != nil {
		t.Fatal("it was never ready")
	}
	if err := b.limited(t, keeperlessRole(t)).Terminate(ctx, id, launcher.End{Cause: "down"}); err != nil {
		t.Error(err)
	}
	b.NothingLeft(t, b.namespace, nil)
}
