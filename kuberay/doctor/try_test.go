package doctor

import (
	"maps"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/spec"
)

// planOf is the plan of a cluster file.
func planOf(t *testing.T, text string) *objects.Plan {
	t.Helper()
	s, err := spec.Decode(strings.NewReader(text), "rayctl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := objects.NewPlan(spec.For(s, kuberayspec.Name), "ns", "ann@laptop", admit.All())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTriedPod: doctor's pod has the labels that the keeper's has for the site, and none by which it would be taken for a cluster's.
func TestTriedPod(t *testing.T) {
	p := planOf(t, "name: c\nlauncher: kuberay\nimage: r:2.60.0\nkuberay: {keeperPatch: {metadata: {labels: {cost: small}}}}\njob: {entrypoint: 'true'}\n")
	want := map[string]string{"cost": "small", "sidecar.istio.io/inject": "false", labelDoctor: "doctor-x", objects.LabelManagedBy: objects.ManagedBy}
	if got := tryJob(&api.Client{Namespace: "ns"}, "doctor-x", p).Spec.Template.Labels; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestEarlyHeadHeld: an early head is refused where a queueing system has suspended the RayCluster that was tried, also if it has admitted it soon after.
func TestEarlyHeadHeld(t *testing.T) {
	p := planOf(t, "name: c\nlauncher: kuberay\nimage: r:2.60.0\nhead: {early: true}\nworkers: [{name: w}]\njob: {entrypoint: 'true'}\n")
	whole, err := p.RayCluster()
	if err != nil {
		t.Fatal(err)
	}
	admitted := gated(whole, whole.ObjectMeta)
	for _, held := range []bool{true, false} {
		if check := letIn(whole, admitted, held); check.OK == held {
			t.Errorf("held %v: %+v", held, check)
		}
	}
}
