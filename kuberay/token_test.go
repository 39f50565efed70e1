package kuberay_test

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/test/pace"
)

// TestWithoutToken: for a Ray without tokens the launch and doctor report who can connect to what. The image has a newer Ray
// than its tag names, and is set to require no token: its dashboard answers everybody.
func TestWithoutToken(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := named("open", `python -c '
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8265/api/version").status)
'`)
	s.Image, s.Ray.Version = "rayproject/ray:2.46.0", ""
	const want = "Ray 2.46.0 has no tokens (2.52 and later have): every pod of this Kubernetes that reaches the pods of the cluster"
	if c := findings(t, b.l, s)["token"]; !c.OK || !strings.Contains(c.Detail, want) {
		t.Errorf("doctor: %+v", c)
	}
	if c := findings(t, b.l, smallSpec())["token"]; !c.OK || strings.Contains(c.Detail, "no tokens") {
		t.Errorf("doctor of a Ray with tokens: %+v", c)
	}
	var warned []string
	r := b.beginWith(t, b.l, s, launcher.Payload{Warn: func(text string) { warned = append(warned, text) }})
	r.wantEnd(t, "succeeded", 0, "200\n")
	if len(warned) != 1 || !strings.Contains(warned[0], want) {
		t.Errorf("the launch warns: %q", warned)
	}
}
