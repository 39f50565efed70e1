package kuberay_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestKeeperRefused: where the quota leaves no room for the keeper's pod the launch reports that and waits until there is room or lifetime.queue has
// passed. While it waits, Kubernetes itself would end it soon after its client.
func TestKeeperRefused(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	b.occupy(t, "", "", "") // the cluster of keeper, record and head would fit, but not beside others' three pods
	b.Create(t, b.namespace, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {pods: "3"}}}`)
	b.awaitQuota(t)
	waits := named("waits", waitingDriver)
	b.nothingLeft(t, "waits")
	said, launched := make(chan struct{}), make(chan error, 1)
	say := sync.OnceFunc(func() { close(said) })
	go func() {
		_, err := b.l.Launch(t.Context(), waits, launcher.Payload{
			Packages: func(context.Context) (*launcher.Packages, error) {
				if left := b.allocated(t, "waits"); len(left) > 0 {
					t.Errorf("%v is held while packages are made", left)
				}
				return nil, nil
			},
			Progress: func(p launcher.Progress) {
				if strings.Contains(p.Text, "exceeded quota: none") {
					say()
				}
			},
		})
		launched <- err
	}()

	short := named("short", "echo never")
	short.Lifetime.Queue = units.Limit(5 * time.Second)
	_, err := b.l.Launch(t.Context(), short, launcher.Payload{})
	if launcher.ExitCode(err) != runstate.CodeQueueTimeout || !strings.Contains(err.Error(), "exceeded quota: none") {
		t.Errorf("code %d: %v", launcher.ExitCode(err), err)
	}
	b.awaitNothing(t, "short")

	select {
	case <-said:
	case err := <-launched:
		t.Fatalf("the launch did not wait: %v", err)
	}
	for _, name := range []string{"waits", "waits-record"} {
		if d := b.job(t, name).Spec; ptr.Deref(d.ActiveDeadlineSeconds, 0) != 300 || *d.TTLSecondsAfterFinished > 60 {
			t.Errorf("Job %s would stay without its client: %+v", name, d)
		}
	}
	b.leave(t)
	if err := <-launched; err != nil {
		t.Fatalf("with room: %v", err)
	}
	for name, deadline := range map[string]time.Duration{"waits": objects.Longest, "waits-record": 0} {
		if d := b.job(t, name).Spec; ptr.Deref(d.ActiveDeadlineSeconds, 0) != int64(deadline.Seconds()) || (name != "waits") != (*d.TTLSecondsAfterFinished > 60) {
			t.Errorf("Job %s has not the limits that it is to have: %+v", name, d)
		}
	}
}

// occupy lets three pods of others take room of a quota. They are never scheduled.
func (b bed) occupy(t *testing.T, memory ...string) {
	t.Helper()
	for i, m := range memory {
		resources := ""
		if m != "" {
			resources = fmt.Sprintf(", resources: {requests: {memory: %s}, limits: {memory: %s}}", m, m)
		}
		b.Create(t, b.namespace, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: other-%d, labels: {other: pod}}, spec: "+
			"{schedulingGates: [{name: rayctl.test/never}], containers: [{name: c, image: none%s}]}}", i, resources))
	}
}

// leave takes them away.
func (b bed) leave(t *testing.T) {
	t.Helper()
	b.DeletePods(t, b.namespace, "other=pod", 0)
}

// TestJobRefused: a Job that the namespace's quota refuses fails the launch.
func TestJobRefused(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	b.Create(t, b.namespace, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: tighter}, spec: {hard: {count/jobs.batch: "0"}}}`)
	kubetest.Await(t, "the quota to count", func(ctx context.Context) error {
		_, err := b.l.Launch(ctx, named("refused", "echo never"), launcher.Payload{})
		if err == nil || !strings.Contains(err.Error(), "exceeded quota: tighter") {
			return err
		}
		if launcher.ExitCode(err) != runstate.CodeStartFailed {
			t.Errorf("code %d: %v", launcher.ExitCode(err), err)
		}
		return nil
	})
}
