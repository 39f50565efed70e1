package kuberay_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/pace"
)

// TestLaunchNotPermitted: each refused request names its verb and resource, with code 77, and nothing is left.
func TestLaunchNotPermitted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	for _, lack := range lacks {
		_, err := b.limited(t, without(minimalRole(t), lack.verb, lack.resource)).Launch(t.Context(), named("lacking", "echo never"), launcher.Payload{})
		if launcher.ExitCode(err) != runstate.CodePermission || !strings.Contains(err.Error(), lack.want) {
			t.Errorf("without %s %s: code %d: %v", lack.verb, lack.resource, launcher.ExitCode(err), err)
		}
		b.NothingLeft(t, b.namespace, nil)
	}
}

// lacks are the verbs of the minimal Role that a launch needs, in the order of their use.
var lacks = []struct{ verb, resource, want string }{
	{"get", "jobs", "get jobs.batch"},
	{"create", "jobs", "create jobs.batch"},
	{"create", "secrets", "create secrets"},
	{"create", "services", "create services"},
	{"patch", "jobs", "patch jobs.batch"},
	{"create", "rayclusters", "create rayclusters.ray.io"},
	{"create", "podgroups", "create podgroups.scheduling.volcano.sh"},
	{"list", "pods", "list pods"},
	{"get,create", "pods/portforward", "create pods/portforward"},
	{"patch", "secrets", "patch secrets"},
}

// TestProxyNotPermitted: through the API server's proxy of Services each kind of request is a verb of its own.
func TestProxyNotPermitted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	file := filepath.Join(t.TempDir(), "package.zip")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	packed := func(context.Context) (*launcher.Packages, error) {
		return &launcher.Packages{Files: []launcher.PackageFile{{URI: "gcs://_ray_pkg_0123456789abcdef.zip", Path: file, Size: 7}}}, nil
	}
	for _, lack := range []struct {
		may  []string
		pay  launcher.Payload
		want string
	}{
		{[]string{"get"}, launcher.Payload{}, `cannot create resource "services/proxy"`},
		{[]string{"get", "create"}, launcher.Payload{Packages: packed}, `cannot update resource "services/proxy"`},
	} {
		l := kuberay.New(kuberay.Config{Kubeconfig: b.LimitedKubeconfig(t, b.namespace, reachingBy(t, permit("services/proxy", lack.may...))...)})
		_, err := l.Launch(t.Context(), named("lacking", "echo never"), lack.pay)
		if launcher.ExitCode(err) != runstate.CodePermission || !strings.Contains(err.Error(), lack.want) {
			t.Errorf("with %q: code %d: %v", lack.may, launcher.ExitCode(err), err)
		}
		b.NothingLeft(t, b.namespace, nil)
	}
}

// TestConfigMapsNotPermitted: a file with ConfigMaps needs more than the Role of the guide.
func TestConfigMapsNotPermitted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := named("lacking", "echo never")
	s.Sections = kuberayspec.In(&kuberayspec.Section{ConfigMaps: map[string]map[string]string{"greeting": {"text": "hello"}}})
	may := func(verbs ...string) error {
		_, err := b.limited(t, append(minimalRole(t), permit("configmaps", verbs...))).Launch(t.Context(), s, launcher.Payload{})
		return err
	}
	wants := func(err error, want string) {
		t.Helper()
		if launcher.ExitCode(err) != runstate.CodePermission || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: code %d: %v", want, launcher.ExitCode(err), err)
		}
	}
	wants(may("get", "patch"), "create configmaps")
	b.Create(t, b.namespace, `{apiVersion: v1, kind: ConfigMap, metadata: {name: greeting, labels: {app.kubernetes.io/managed-by: rayctl}}, data: {text: hello}}`)
	wants(may("create", "patch"), "get configmaps")
	wants(may("create", "get"), "patch configmaps")
	if err := b.Core.CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), "greeting", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.NothingLeft(t, b.namespace, nil)
}

// TestUseNotPermitted does the same for what is needed of a cluster that is there.
func TestUseNotPermitted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	r := b.begin(t, b.l, named("used", waitingDriver))
	r.printed(t, "begun\n")
	watch := func(l *kuberay.Launcher) error { _, err := l.Watch(t.Context(), r.id); return err }
	for _, lack := range []struct {
		verb, resource, want string
		use                  func(*kuberay.Launcher) error
	}{
		{"list", "jobs", "list jobs.batch", func(l *kuberay.Launcher) error { _, err := l.List(t.Context(), launcher.Selector{}); return err }},
		// The API server of today lists in the stream of a watch; the older ones' way is tried after it.
		{"list,watch", "jobs", "list jobs.batch", watch},
		{"get", "rayclusters", "get rayclusters.ray.io", watch},
		{"list,watch", "rayclusters", "list rayclusters.ray.io", watch},
		{"list,watch", "podgroups", "list podgroups.scheduling.volcano.sh", watch},
		{"list,watch", "events", "list events", watch},
		{"list,watch", "pods", "list pods", watch},
		{"get", "secrets", "get secrets", func(l *kuberay.Launcher) error { _, err := l.Dial(t.Context(), r.id, launcher.Dashboard); return err }},
		{"get,create", "pods/exec", "pods/exec", func(l *kuberay.Launcher) error {
			var out bytes.Buffer
			_, err := l.Exec(t.Context(), r.id, launcher.ExecRequest{Command: []string{"true"}, Stdout: &out})
			return err
		}},
	} {
		err := lack.use(b.limited(t, without(minimalRole(t), lack.verb, lack.resource)))
		if launcher.ExitCode(err) != runstate.CodePermission || !strings.Contains(err.Error(), lack.want) {
			t.Errorf("without %s %s: code %d: %v", lack.verb, lack.resource, launcher.ExitCode(err), err)
		}
	}
	b.release(t, r.id)
	r.wantEnd(t, "succeeded", 0, "begun\ndone\n")
	for _, lack := range []struct {
		verb, resource, want string
		use                  func(*kuberay.Launcher) error
	}{
		{"get", "pods/log", "get pods/log", func(l *kuberay.Launcher) error {
			result, err := l.Result(t.Context(), r.id)
			if err != nil {
				return err
			}
			_, err = result.OpenLog(t.Context(), 0, 0)
			return err
		}},
		{"delete", "jobs", "delete jobs.batch", func(l *kuberay.Launcher) error { return l.Forget(t.Context(), r.id) }},
	} {
		err := lack.use(b.limited(t, without(minimalRole(t), lack.verb, lack.resource)))
		if launcher.ExitCode(err) != runstate.CodePermission || !strings.Contains(err.Error(), lack.want) {
			t.Errorf("without %s %s: code %d: %v", lack.verb, lack.resource, launcher.ExitCode(err), err)
		}
	}
	t.Run("expired credentials", func(t *testing.T) {
		_, err := kuberay.New(kuberay.Config{Kubeconfig: b.InvalidKubeconfig(t, b.namespace)}).List(t.Context(), launcher.Selector{})
		if launcher.ExitCode(err) != runstate.CodePermission || !strings.Contains(err.Error(), "credentials") {
			t.Errorf("code %d: %v", launcher.ExitCode(err), err)
		}
	})
}
