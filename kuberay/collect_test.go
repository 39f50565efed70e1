package kuberay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestCollect: gc finds what nothing else ends, once nobody can still be busy with it: the Job of a client that died before it had a keeper, and a record whose pod
// cannot start and whose cluster is gone. Jobs that another container keeps are TestSidecars', clusters without a keeper TestNoKeeper's.
func TestCollect(t *testing.T) {
	pace.Parallel(t)
	b, begun := newBed(t), time.Now()
	b.waitingRecord(t, "waits")
	b.nothingLeft(t, "dies")
	ctx, die := context.WithCancel(t.Context())
	defer die()
	g := b.newAPIProxy(t)
	g.set(dieAfter(3, new(atomic.Int32), die))
	if _, err := g.launcher().Launch(ctx, named("dies", "echo never"), launcher.Payload{}); err == nil {
		t.Fatal("the client lives")
	}
	want := []launcher.Collected{
		{What: "launch", Name: "dies", Why: "its client died before it had a keeper"}, {What: "record", Name: "waits", Why: "its cluster has ended, and its pod cannot start"},
	}
	finds := func(at time.Time, dryRun bool, want []launcher.Collected) {
		t.Helper()
		l := kuberay.New(kuberay.Config{Kubeconfig: b.kubeconfig, Now: func() time.Time { return at }})
		found, err := l.Reconcile(t.Context(), launcher.Scope{DryRun: dryRun})
		slices.SortFunc(found, func(a, b launcher.Collected) int { return strings.Compare(a.Name, b.Name) })
		if err != nil || !slices.Equal(found, want) {
			t.Errorf("gc at %s, dry run %v: %+v, %v, want %+v", at.Sub(begun), dryRun, found, err, want)
		}
	}
	later := time.Now().Add(orders.Lease + time.Second)
	finds(begun, false, nil)
	finds(later, true, want)
	finds(later, false, want)
	b.awaitNothing(t, "dies")
	kubetest.Await(t, "the result of the record", func(ctx context.Context) error {
		r, err := b.l.Result(ctx, "waits")
		if err == nil && r.Exit.Cause != runstate.CauseLost {
			t.Errorf("it is %+v", r.Exit)
		}
		return err
	})
	finds(later, true, nil)
}

// waitingRecord leaves a record alone: admission gives its pod a node selector that no node has, as PodNodeSelector does, and somebody deletes its cluster.
func (b bed) waitingRecord(t *testing.T, id launcher.ID) {
	t.Helper()
	b.webhook(t, "place.rayctl.test", "pods", func(asked *admissionv1.AdmissionRequest, answer *admissionv1.AdmissionResponse) {
		pod := corev1.Pod{}
		if err := json.Unmarshal(asked.Object.Raw, &pod); err != nil {
			t.Error(err)
		}
		if pod.Labels["rayctl.io/role"] == "record" && pod.Labels["rayctl.io/name"] == string(id) {
			kind := admissionv1.PatchTypeJSONPatch
			answer.PatchType, answer.Patch = &kind, []byte(`[{"op": "add", "path": "/spec/nodeSelector", "value": {"rayctl.test/none": "here"}}]`)
		}
	})
	b.nothingLeft(t, id)
	if _, err := b.l.Launch(t.Context(), headless(string(id)), launcher.Payload{}); err != nil {
		t.Fatal(err)
	}
	background := metav1.DeletePropagationBackground
	if err := b.Core.BatchV1().Jobs(b.namespace).Delete(t.Context(), string(id), metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	kubetest.Await(t, "the record to be alone", func(context.Context) error {
		for _, left := range b.allocated(t, id) {
			if !strings.HasPrefix(left, "pods/"+string(id)+"-record") {
				return fmt.Errorf("left: %s", left)
			}
		}
		return nil
	})
}
