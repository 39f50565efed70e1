package kuberay_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestForeignRecord: a Job that has the name of a record, and is none of this cluster, is named and left alone, by launches as well as by who
// would forget the cluster.
func TestForeignRecord(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	theirs := func(name, labels string) {
		b.Create(t, b.namespace, `
apiVersion: batch/v1
kind: Job
metadata: {name: `+name+`, labels: {`+labels+`}}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: none}]}}}`)
	}
	late := sync.OnceFunc(func() { theirs("late-record", "") })
	g := b.newGate(t)
	g.set(func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/secrets") {
			late() // after the launch has looked
		}
		pass.ServeHTTP(w, r)
	})
	theirs("taken-record", "")
	theirs("kept-record", "app.kubernetes.io/managed-by: rayctl, rayctl.io/role: keeper, rayctl.io/name: kept-record")
	before := []*batchv1.Job{b.job(t, "taken-record"), b.job(t, "kept-record")}
	for name, want := range map[string]string{
		"taken": `a Job named "taken-record" exists that rayctl did not make`,
		"kept":  "the Job kept-record is the keeper of the cluster kept-record",
		"late":  `a Job named "late-record" exists`,
	} {
		_, err := g.launcher().Launch(t.Context(), job(name, "echo never"), launcher.Payload{})
		if launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), want) {
			t.Errorf("launch: code %d: %v", launcher.ExitCode(err), err)
		}
		b.awaitNothing(t, launcher.ID(name))
		if err := b.l.Forget(t.Context(), launcher.ID(name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("forget: %v", err)
		}
	}
	for _, was := range before {
		if is := b.job(t, was.Name); is.UID != was.UID || is.DeletionTimestamp != nil {
			t.Errorf("%s was deleted", was.Name)
		}
	}
	b.job(t, "late-record")
}

// awaitNothing waits until Kubernetes has collected what a launch that failed has deleted.
func (b bed) awaitNothing(t *testing.T, id launcher.ID) {
	t.Helper()
	kubetest.Await(t, "the end of "+string(id), func(context.Context) error {
		if left := b.allocated(t, id); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}

// job reads a Job.
func (b bed) job(t *testing.T, name string) *batchv1.Job {
	t.Helper()
	j, err := b.Core.BatchV1().Jobs(b.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// TestKeeperRefused: where the quota leaves no room for the keeper's pod the launch reports that and waits until there is room or lifetime.queue has
// passed. While it waits, Kubernetes itself would end it soon after its client.
func TestKeeperRefused(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	b.occupy(t, "", "", "") // the cluster of keeper, record and head would fit, but not beside others' three pods
	b.Create(t, b.namespace, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {pods: "3"}}}`)
	b.awaitQuota(t)
	waits := job("waits", waitingDriver)
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

	short := job("short", "echo never")
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

// awaitQuota waits until no pod is let in any more.
func (b bed) awaitQuota(t *testing.T) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "any"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
	kubetest.Await(t, "the quota to count", func(ctx context.Context) error {
		_, err := b.Core.CoreV1().Pods(b.namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), "exceeded quota") {
			return nil
		}
		return errors.Join(errors.New("a pod is let in"), err)
	})
}
