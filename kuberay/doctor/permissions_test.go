package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestDoctorAsksForTheRole: doctor checks the permissions of the Role in the guide, except those that it tries out, and alternatives of which one is enough.
func TestDoctorAsksForTheRole(t *testing.T) {
	guide, err := os.ReadFile("../../docs/kuberay-reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(guide), "## Permissions")
	_, after, _ = strings.Cut(after, "```yaml\n")
	text, _, _ := strings.Cut(after, "```")
	var role rbacv1.Role
	if err := kyaml.UnmarshalStrict([]byte(text), &role); err != nil {
		t.Fatal(err)
	}
	documented, asked := map[string][]string{}, map[string][]string{}
	for _, r := range role.Rules {
		if resource := r.Resources[0]; !strings.HasSuffix(resource, "/finalizers") && resource != "pods/portforward" {
			documented[r.APIGroups[0]+"/"+resource] = slices.Sorted(slices.Values(r.Verbs))
		}
	}
	wanted := func(text string) []permission {
		s, err := spec.Decode(strings.NewReader("launcher: kuberay\nimage: rayproject/ray:2.60.0\n"+text), "rayctl.yaml")
		if err != nil {
			t.Fatal(err)
		}
		return permissionsFor(spec.For(s, kuberayspec.Name), admit.All())
	}
	for _, p := range wanted("") {
		asked[p.group+"/"+p.resource] = slices.Sorted(slices.Values(p.verbs))
	}
	if diff := cmp.Diff(documented, asked); diff != "" {
		t.Errorf("-documented +asked:\n%s", diff)
	}
	for _, p := range wanted("kuberay: {keeper: none}\n") {
		if p.resource == "services" || p.resource == "jobs" && slices.Contains(p.verbs, "create") {
			t.Errorf("without a keeper nobody needs %v of %s", p.verbs, p.resource)
		}
	}
}
