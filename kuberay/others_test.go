package kuberay_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/pace"
)

// TestOthersAreUsed: a cluster that somebody made by kubectl, with a token of KubeRay's making, is listed, worked with, and not ended.
func TestOthersAreUsed(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	text, err := os.ReadFile(example(t, "kuberay-raycluster.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := string(text)
	if knowsAuthOptions(t, b) {
		manifest = strings.Replace(manifest, "rayVersion: 2.60.0", "rayVersion: 2.60.0\n  authOptions: {mode: token}", 1)
	}
	for _, object := range strings.Split(manifest, "\n---\n") {
		b.Create(t, b.namespace, object)
	}
	b.AwaitReady(t, b.namespace, "manifest")
	u := newUser(t, b.kubeconfig)
	kube := func(args ...string) []string { return append(args, "--launcher", "kuberay") }
	if out := u.succeeds(t, "manifest", kube("ls", "--others")...).out; !strings.Contains(out, "manifest (not rayctl's)") {
		t.Errorf("ls: %s", out)
	}
	if out := u.succeeds(t, "", kube("ls")...).out; strings.Contains(out, "manifest") {
		t.Errorf("ls: %s", out)
	}
	u.succeeds(t, "Ready", kube("status", "manifest")...)
	u.succeeds(t, "hello from the ConfigMap", append(kube("submit", "manifest", "--submission-id", "greet"), "--", "cat", "/etc/greeting/greeting.txt")...)
	u.succeeds(t, "hello from the ConfigMap", kube("logs", "manifest", "greet")...)
	u.succeeds(t, "greet", kube("jobs", "manifest")...)
	l, err := b.l.Dial(t.Context(), "manifest", launcher.Dashboard)
	if err != nil || (l.Token != "") != knowsAuthOptions(t, b) {
		t.Errorf("dashboard: %v", err)
	}
	if a := u.does(t, kube("down", "manifest")...); a.code != runstate.CodeUsage || !strings.Contains(a.notes, "was not made by rayctl") {
		t.Errorf("down: code %d: %s", a.code, a.notes)
	}
	b.AwaitReady(t, b.namespace, "manifest")
}

// knowsAuthOptions: KubeRay 1.5 and later do.
func knowsAuthOptions(t *testing.T, b bed) bool {
	t.Helper()
	samples, err := filepath.Glob(filepath.Join(b.Samples(), "ray-cluster.auth-manual.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return len(samples) > 0
}

// TestForeignClustersAreListedNotEnded: clusters that rayctl did not make are listed as such, and not ended; their names are taken.
func TestForeignClustersAreListedNotEnded(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	b.Create(t, b.namespace, `
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: theirs}
spec:
  suspend: true
  headGroupSpec:
    rayStartParams: {}
    template: {spec: {containers: [{name: ray-head, image: "rayproject/ray:2.60.0"}]}}`)
	found, err := b.l.List(t.Context(), launcher.Selector{Others: true})
	if err != nil || len(found) != 1 || found[0].Ours || found[0].Name != "theirs" {
		t.Errorf("list: %+v, %v", found, err)
	}
	if mine, err := b.l.List(t.Context(), launcher.Selector{}); err != nil || len(mine) != 0 {
		t.Errorf("list of ours: %+v, %v", mine, err)
	}
	if err := b.l.Terminate(t.Context(), "theirs", launcher.End{Cause: "down"}); launcher.ExitCode(err) != runstate.CodeUsage {
		t.Errorf("terminate: %v", err)
	}
	if _, err := b.l.Launch(t.Context(), named("theirs", "echo never"), launcher.Payload{}); launcher.ExitCode(err) != runstate.CodeSpec {
		t.Errorf("launch under a name that is taken: %v", err)
	}
	b.NothingLeft(t, b.namespace, func(object string) bool {
		return strings.HasSuffix(object, "/theirs") || object == "services/theirs-head-svc"
	})
}
