//go:build kubernetes

package kuberay_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/kubetest"
)

// minimalRole is the Role of docs/kuberay.md.
func minimalRole(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	guide, err := os.ReadFile("../docs/kuberay.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(guide), "## Permissions")
	_, after, _ = strings.Cut(after, "```yaml\n")
	text, _, found := strings.Cut(after, "```")
	var role rbacv1.Role
	if err := kyaml.UnmarshalStrict([]byte(text), &role); err != nil || !found || len(role.Rules) < 5 {
		t.Fatalf("the Role in docs/kuberay.md: %v", err)
	}
	return role.Rules
}

// TestMinimalRole takes a run through its life with the Role of the guide and nothing else; doctor is content with it.
func TestMinimalRole(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{})
	ns := c.Namespace(t)
	l := kuberay.New(kuberay.Config{Kubeconfig: c.LimitedKubeconfig(t, ns, minimalRole(t)...)})
	for _, check := range l.Check(t.Context(), nil) {
		if !check.OK {
			t.Errorf("doctor: %s: %s", check.Name, check.Detail)
		}
	}
	s := smallSpec()
	s.Name, s.Job.Entrypoint = "minimal", "echo with few permissions"
	var out bytes.Buffer
	oc, err := launcher.Run(t.Context(), l, s, launcher.Payload{}, launcher.RunOptions{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if oc.Receipt.Exit.Code != 0 || out.String() != "with few permissions\n" {
		t.Errorf("exit %+v, output %q", oc.Receipt.Exit, out.String())
	}
	if err := l.Forget(t.Context(), oc.ID); err != nil {
		t.Errorf("forget: %v", err)
	}
	c.NothingLeft(t, ns, nil)
}

// TestNotPermitted: each refused request names its verb and resource, with code 77, and nothing is left.
func TestNotPermitted(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{})
	ns := c.Namespace(t)
	for _, lack := range []struct{ verb, resource, want string }{
		{"get", "jobs", "get jobs.batch"}, {"create", "jobs", "create jobs.batch"}, {"create", "secrets", "create secrets"},
		{"create", "services", "create services"}, {"create", "rayclusters", "create rayclusters.ray.io"},
		{"create", "podgroups", "create podgroups.scheduling.volcano.sh"}, {"patch", "jobs", "patch jobs.batch"}, {"list", "pods", "list pods"},
	} {
		t.Run(lack.verb+" "+lack.resource, func(t *testing.T) {
			l := kuberay.New(kuberay.Config{Kubeconfig: c.LimitedKubeconfig(t, ns, without(minimalRole(t), lack.verb, lack.resource)...)})
			s := smallSpec()
			s.Name, s.Job.Entrypoint = "lacking", "echo never"
			_, err := l.Launch(t.Context(), s, launcher.Payload{})
			if launcher.ExitCode(err) != launcher.CodePermission || !strings.Contains(err.Error(), lack.want) {
				t.Errorf("code %d: %v", launcher.ExitCode(err), err)
			}
			c.NothingLeft(t, ns, nil)
		})
	}
	t.Run("expired credentials", func(t *testing.T) {
		_, err := kuberay.New(kuberay.Config{Kubeconfig: c.InvalidKubeconfig(t, ns)}).List(t.Context(), launcher.Selector{})
		if launcher.ExitCode(err) != launcher.CodePermission || !strings.Contains(err.Error(), "credentials") {
			t.Errorf("code %d: %v", launcher.ExitCode(err), err)
		}
	})
}

func without(rules []rbacv1.PolicyRule, verb, resource string) (out []rbacv1.PolicyRule) {
	for _, r := range rules {
		r = *r.DeepCopy()
		if r.Resources[0] == resource {
			var verbs []string
			for _, v := range r.Verbs {
				if v != verb {
					verbs = append(verbs, v)
				}
			}
			r.Verbs = verbs
		}
		if len(r.Verbs) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// TestNoImage: a start that cannot succeed ends with one sentence, and nothing stays allocated.
func TestNoImage(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{})
	ns := c.Namespace(t)
	b := bed{Cluster: c, namespace: ns, kubeconfig: c.KubeconfigFor(t, ns)}
	l := kuberay.New(kuberay.Config{Kubeconfig: b.kubeconfig})
	s := smallSpec()
	s.Name, s.Job.Entrypoint = "noimage", "echo never"
	s.KubeRay = &spec.KubeRay{KeeperImage: "rayproject/ray:2.60.0"}
	s.Image = "registry.invalid/nosuch:2.60.0"
	oc, err := launcher.Run(t.Context(), l, s, launcher.Payload{}, launcher.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if e := oc.Receipt.Exit; e.Code != launcher.CodeStartFailed || !strings.Contains(e.Message, "registry.invalid/nosuch:2.60.0") {
		t.Errorf("exit %+v", e)
	}
	if left := b.allocated(t, oc.ID); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestOthers: clusters that rayctl did not make are listed as such, and not ended.
func TestOthers(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{})
	ns := c.Namespace(t)
	l := kuberay.New(kuberay.Config{Kubeconfig: c.KubeconfigFor(t, ns)})
	c.Create(t, ns, `
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: theirs}
spec:
  suspend: true
  headGroupSpec:
    rayStartParams: {}
    template: {spec: {containers: [{name: ray-head, image: "rayproject/ray:2.60.0"}]}}`)
	found, err := l.List(t.Context(), launcher.Selector{Others: true})
	if err != nil || len(found) != 1 || found[0].Ours || found[0].Name != "theirs" {
		t.Errorf("list: %+v, %v", found, err)
	}
	if mine, err := l.List(t.Context(), launcher.Selector{}); err != nil || len(mine) != 0 {
		t.Errorf("list of ours: %+v, %v", mine, err)
	}
	if err := l.Terminate(t.Context(), "theirs", launcher.End{Cause: "down"}); launcher.ExitCode(err) != launcher.CodeUsage {
		t.Errorf("terminate: %v", err)
	}
	s := smallSpec()
	s.Name, s.Job.Entrypoint = "theirs", "echo never"
	if _, err := l.Launch(t.Context(), s, launcher.Payload{}); launcher.ExitCode(err) != launcher.CodeSpec {
		t.Errorf("launch under a name that is taken: %v", err)
	}
}

// TestSilentOperator: nobody reconciles, and that is said; the end needs no operator.
func TestSilentOperator(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{})
	ns := c.Namespace(t)
	b := bed{Cluster: c, namespace: ns, kubeconfig: c.KubeconfigFor(t, ns)}
	l := kuberay.New(kuberay.Config{Kubeconfig: b.kubeconfig})
	c.StopOperator(t)
	defer c.StartOperator(t)
	s := smallSpec()
	s.Name, s.Job.Entrypoint = "silent", "echo never"
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	watching, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	statuses, err := l.Watch(watching, id)
	if err != nil {
		t.Fatal(err)
	}
	said := false
	for st := range statuses {
		if said = st.Reason.Code == "OperatorSilent"; said {
			break
		}
	}
	if !said {
		t.Error("nobody said that the operator is silent")
	}
	if err := l.Terminate(t.Context(), id, launcher.End{Cause: "down", Message: "ended by the test"}); err != nil {
		t.Error(err)
	}
	if r, err := l.Result(t.Context(), id); err != nil || r.Exit.Cause != "down" {
		t.Errorf("result %+v, %v", r, err)
	}
	if left := b.allocated(t, id); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
