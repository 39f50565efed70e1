package kuberay_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/pace"
)

// TestSamples takes KubeRay's own samples of RayClusters and RayJobs: what would be created of each is valid for the real API server.
func TestSamples(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	files := samples(t, b.Samples())
	if len(files) < 30 { // KubeRay 1.4 has some 40
		t.Fatalf("only %d samples in %s", len(files), b.Samples())
	}
	t.Run("newer fields", b.newerFields)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s, err := load(t, "echo hello", file)
			var rendered []launcher.File
			if err == nil {
				rendered, err = b.l.Render(s)
			}
			if why, bad := refused[filepath.Base(file)]; bad {
				if launcher.ExitCode(err) != runstate.CodeSpec && !strings.Contains(errText(err), why) || !strings.Contains(errText(err), why) {
					t.Errorf("%v, want one with %q", err, why)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range rendered {
				if err := b.dryRun(t.Context(), f); err != nil {
					t.Errorf("%s: %v", f.Name, err)
				}
			}
		})
	}
}

// samples are the files with a RayCluster or a RayJob.
func samples(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("\nkind: RayCluster\n")) || bytes.Contains(text, []byte("\nkind: RayJob\n")) {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// newerFields: a field that this KubeRay does not have is refused by its path, before anything is left behind; none is dropped in silence.
func (b bed) newerFields(t *testing.T) {
	file := filepath.Join(t.TempDir(), "newer.yaml")
	const text = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: newer}\nspec:\n  rayVersion: 2.60.0\n  fieldOfKubeRay9: {mode: DenyAll}\n" +
		"  headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: h, image: 'rayproject/ray:2.60.0'}]}}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := load(t, "echo hello", file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.l.Launch(t.Context(), s, launcher.Payload{})
	if launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(errText(err), `unknown field "spec.fieldOfKubeRay9"`) {
		t.Errorf("%v (code %d)", err, launcher.ExitCode(err))
	}
}

// load reads a file as `rayctl run -f FILE -- COMMAND` does.
func load(t *testing.T, command, file string, more ...string) (*spec.ClusterSpec, error) {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddSpec(flags)
	if err := flags.Parse(append([]string{"-f", file}, more...)); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Options{Flags: flags, Entrypoint: command, Dir: t.TempDir()})
	if err != nil {
		return nil, err
	}
	return c.Spec, nil
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// refused are samples that rayctl does not take, and why.
var refused = map[string]string{
	"ray-cluster.kubernetes.auth.yaml":        "takes Kubernetes' own tokens",
	"ray-cluster.kubernetes.auth-manual.yaml": "takes Kubernetes' own tokens",
	"ray-job.use-existing-raycluster.yaml":    "rayctl submit -c NAME",
}

// TestRunSamples runs two samples as they are: a RayJob, and a RayCluster whose pods have a token of the user's own.
func TestRunSamples(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	t.Run("RayJob", func(t *testing.T) {
		s, err := load(t, "", filepath.Join(b.Samples(), "ray-job.deletion-rules.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if out := b.output(t, s); !strings.Contains(out, "ray.cluster_resources(): {") || !strings.Contains(out, "'CPU': 2.0") {
			t.Errorf("output %q", out)
		}
	})
	t.Run("RayCluster", func(t *testing.T) {
		file := filepath.Join(b.Samples(), "ray-cluster.auth-manual.yaml")
		s, err := load(t, `test "$RAY_AUTH_TOKEN" = a-token-of-32-characters-or-more- && echo theirs`, file)
		if err != nil {
			t.Fatal(err)
		}
		smallContainers(kuberayspec.Of(s).RayCluster)
		if _, err := b.l.Launch(t.Context(), s, launcher.Payload{}); launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), "the Secret ray-cluster-with-auth") {
			t.Errorf("without its Secret: %v", err)
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "ray-cluster-with-auth"}, StringData: map[string]string{"auth_token": "a-token-of-32-characters-or-more-"}}
		if _, err := b.Core.CoreV1().Secrets(b.namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if out := b.output(t, s); out != "theirs\n" {
			t.Errorf("output %q", out)
		}
	})
	b.NothingLeft(t, b.namespace, func(object string) bool {
		return strings.Contains(object, "-record") || object == "secrets/ray-cluster-with-auth"
	})
}

// output takes a job through its life and returns what it printed.
func (b bed) output(t *testing.T, s *spec.ClusterSpec) string {
	t.Helper()
	var out bytes.Buffer
	oc, err := launcher.Run(t.Context(), b.l, s, launcher.Payload{}, launcher.RunOptions{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if oc.Receipt.Exit.Code != 0 {
		t.Errorf("%s: %+v\n%s", s.Name, oc.Receipt.Exit, b.story(t, oc.ID))
	}
	return out.String()
}

// smallContainers lets a sample fit beside what else runs on the testbed.
func smallContainers(rc spec.Object) {
	groups := []any{rc["headGroupSpec"]}
	if workers, ok := rc["workerGroupSpecs"].([]any); ok {
		groups = slices.Concat(groups, workers)
	}
	for _, g := range groups {
		containers, _, _ := unstructured.NestedSlice(g.(map[string]any), "template", "spec", "containers")
		containers[0].(map[string]any)["resources"] = map[string]any{"requests": map[string]any{"cpu": "200m"}, "limits": map[string]any{"memory": "3Gi"}}
		_ = unstructured.SetNestedSlice(g.(map[string]any), containers, "template", "spec", "containers")
	}
}
