package kuberay_test

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/pace"
)

// TestOthers: clusters that rayctl did not make are listed as such, and not ended; their names are taken.
func TestOthers(t *testing.T) {
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
	if _, err := b.l.Launch(t.Context(), job("theirs", "echo never"), launcher.Payload{}); launcher.ExitCode(err) != runstate.CodeSpec {
		t.Errorf("launch under a name that is taken: %v", err)
	}
	b.NothingLeft(t, b.namespace, func(object string) bool {
		return strings.HasSuffix(object, "/theirs") || object == "services/theirs-head-svc"
	})
}
