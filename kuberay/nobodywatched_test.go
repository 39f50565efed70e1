package kuberay_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/pace"
)

// TestNobodyWatched: the keeper's pod and the head are lost together, and no client has noted anything. The next keeper reads from the record's pod that
// the driver was submitted, and to which head: no second driver starts on the new head.
func TestNobodyWatched(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	id, err := b.l.Launch(t.Context(), named("alone", waitingDriver), launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	b.nothingLeft(t, id)
	driver := "echo begun; until" // of waitingDriver
	b.process(t, "ray.io/cluster="+string(id), driver)
	secret, err := b.Core.CoreV1().Secrets(b.namespace).Get(t.Context(), string(id)+"-rayctl", metav1.GetOptions{})
	if err != nil || secret.Data["state.json"] != nil || secret.Data["submitted"] != nil {
		t.Fatalf("a client has noted something: %v", err)
	}
	b.killKeeper(t, id)
	b.DeletePods(t, b.namespace, "ray.io/cluster="+string(id), 0)
	ctx, cancel := context.WithTimeout(t.Context(), patience) // a second driver would wait for ever
	defer cancel()
	outcome, err := launcher.Attach(ctx, b.l, id, launcher.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := outcome.Receipt
	if r.Exit.Cause != runstate.CauseLost || len(r.Attempts) != 1 || r.Attempts[0].SubmissionID != string(id)+"-1" {
		t.Errorf("exit %+v, attempts %+v", r.Exit, r.Attempts)
	}
	seen := map[string]int{}
	for _, e := range r.Timeline {
		seen[e.Kind+" "+e.To]++
	}
	// The keeper may have been lost before it asked Ray again: then RUNNING is in no timeline.
	if seen["job PENDING"] != 1 || seen["job RUNNING"] > 1 || seen["phase Ready"] != 1 || seen["keeper resumed"] == 0 {
		t.Errorf("timeline: %+v", r.Timeline)
	}
}
