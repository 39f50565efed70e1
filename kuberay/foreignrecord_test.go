package kuberay_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
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
	g := b.newAPIProxy(t)
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
		_, err := g.launcher().Launch(t.Context(), named(name, "echo never"), launcher.Payload{})
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
