package kuberay_test

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/pace"
)

// resetting resets each connection, as Istio's proxy does with one that is not of the mesh (PeerAuthentication STRICT: Envoy closes what has no mutual TLS). It has
// Ray's port, because only root could lead connections through it.
const resetting = `import socket, struct
with socket.create_server(("", 8265)) as server:
    while True:
        connection = server.accept()[0]
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()`

// TestMeshRefuses: the head is in a mesh that accepts no connections from outside, and the keeper is not in it. The reason names the annotation that answers it.
func TestMeshRefuses(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := named("meshed", "echo never")
	s.Sections = kuberayspec.In(&kuberayspec.Section{Patch: spec.Object{"spec": map[string]any{"headGroupSpec": map[string]any{"rayStartParams": map[string]any{"dashboard-port": "8266"}}}}})
	s.Head.Sections = kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"containers": []any{map[string]any{
		"name": "istio-proxy", "image": "rayproject/ray:2.60.0", "command": []any{"python3", "-c", resetting},
		"securityContext": map[string]any{"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}}},
	}}}})
	const answer = `set sidecar.istio.io/inject: "true" in kuberay.annotations, so that all pods are in it`
	if c := findings(t, b.l, s)["mesh"]; !c.OK || !strings.HasPrefix(c.Detail, "the head's pod has the container istio-proxy, and the keeper's has not") || !strings.HasSuffix(c.Detail, answer) {
		t.Errorf("doctor: %+v", c)
	}
	r := b.begin(t, b.l, s)
	r.until(t, "the mesh's refusal", func(st launcher.Status) bool {
		return st.Reason.Code == "MeshRefuses" && strings.Contains(st.Reason.Message, "the container istio-proxy of the head's pod meshed-head") &&
			st.Reason.Hint == answer
	})
	r.wantEnd(t, "start-failed", runstate.CodeStartFailed, "")
}
