package api

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestElasticHolds: an elastic RayCluster that Kueue refuses gets the annotation with which it takes one, where it knows that; what the file says stays.
func TestElasticHolds(t *testing.T) {
	const annotation = "kueue.x-k8s.io/elastic-job"
	for name, c := range map[string]struct {
		more           string
		knows, refuses bool
		want           string
	}{
		"Kueue with elastic jobs":    {"", true, true, "true"},
		"Kueue without":              {"", false, true, ""},
		"the file does not want it":  {"kuberay: {annotations: {" + annotation + ": no}}\n", true, true, "no"},
		"no queue holds the cluster": {"", true, false, ""},
	} {
		file := "name: e\nlauncher: kuberay\nimage: rayproject/ray:2.60.0\nworkers: [{name: w, cpus: 1, memory: 1Gi, minReplicas: 1, maxReplicas: 2}]\n" + c.more
		s, err := spec.Decode(strings.NewReader(file), "rayctl.yaml")
		if err != nil {
			t.Fatal(err)
		}
		p, err := objects.NewPlan(spec.For(s, kuberayspec.Name), "rl", "ann@laptop", admit.All())
		if err != nil {
			t.Fatal(err)
		}
		served := fake.NewSimpleDynamicClient(runtime.NewScheme())
		served.PrependReactor("create", "rayclusters", func(a clienttesting.Action) (bool, runtime.Object, error) {
			rc := a.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured)
			if c.refuses && (!c.knows || rc.GetAnnotations()[annotation] != "true") {
				return true, nil, errors.NewForbidden(RayClusters.GroupResource(), "e", nil)
			}
			return true, rc, nil
		})
		client := &Client{Namespace: "rl", Dynamic: served, Served: Served{Admitters: admit.All()}}
		h := client.Holds(t.Context(), p)
		if h.Resizable != (c.want == "true") {
			t.Errorf("%s: %+v", name, h)
		}
		if err := p.Obey(h); err != nil {
			t.Fatal(err)
		}
		rc, err := p.RayCluster()
		if err != nil || rc.Annotations[annotation] != c.want {
			t.Errorf("%s: %q, %v, want %q", name, rc.Annotations[annotation], err, c.want)
		}
	}
}
