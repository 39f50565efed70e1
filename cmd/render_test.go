package cmd

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestRenderIsOneStream: the output of render for Kubernetes is a stream of documents for `kubectl apply -f -`, each with a kind.
func TestRenderIsOneStream(t *testing.T) {
	t.Chdir(t.TempDir())
	a, out, stderr := apptest.New()
	a.Launchers["kuberay"] = launchers()["kuberay"]
	args := []string{"render", "--launcher", "kuberay", "--image", "rayproject/ray:2.60.0", "--set", "local.packages=[jax]", "--", "true"}
	if code := a.Execute(t.Context(), NewRoot, args); code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	var kinds []string
	documents := utilyaml.NewYAMLToJSONDecoder(bytes.NewReader(out.Bytes()))
	for {
		var o struct{ Kind string }
		err := documents.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, o.Kind)
	}
	if got := strings.Join(kinds, " "); got != "Job Secret Service RayCluster PodGroup Job" {
		t.Errorf("kinds %q of\n%s", got, out)
	}
}

// TestRenderNeedsNoSite: without the site the home directory there is a placeholder, not a ~ that quotes would keep.
func TestRenderNeedsNoSite(t *testing.T) {
	t.Chdir(t.TempDir())
	a, out, stderr := apptest.New()
	a.Launchers["slurm"] = launchers()["slurm"]
	if code := a.Execute(t.Context(), NewRoot, []string{"render", "--launcher", "slurm", "--name", "a", "--", "true"}); code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	if text := out.String(); !strings.Contains(text, "#SBATCH --chdir=HOME/.rayctl/runs/a\n") || strings.Contains(text, "'~") {
		t.Errorf("%s", text)
	}
}

// TestRenderShortMounts: `mounts: [/shared]` is the directory under its own name in a container of Slurm, needs nothing where nodes have it anyway, and is refused on
// Kubernetes, which has no such directories.
func TestRenderShortMounts(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	bound := "\"source\": \"" + dir + "\",\n          \"target\": \"" + dir + "\""
	for name, c := range map[string]struct {
		launcher, more, has string
		code                int
	}{
		"a container of Apptainer": {"slurm", "image: y.sif\nslurm: {containerRuntime: apptainer}\n", bound, 0},
		"a container of Pyxis":     {"slurm", "image: y.sqsh\nslurm: {containerRuntime: pyxis}\n", bound, 0},
		"a Slurm node":             {"slurm", "", "", 0},
		"this machine":             {"local", "", "", 0},
		"a queue here":             {"tsp", "", "", 0},
		"a pod":                    {"kuberay", "image: rayproject/ray:2.60.0\n", "add source.kuberay, as in {mountPath: " + dir + ", source: {kuberay: ", runstate.CodeSpec},
	} {
		t.Run(name, func(t *testing.T) {
			apptest.WriteFiles(t, dir, map[string]string{"r.yaml": "name: x\nlauncher: " + c.launcher + "\nmounts: [" + dir + "]\njob: {entrypoint: a, cwd: /}\n" + c.more})
			a, out, stderr := apptest.New()
			a.Launchers[c.launcher] = launchers()[c.launcher]
			code := a.Execute(t.Context(), NewRoot, []string{"render", "-f", "r.yaml"})
			if text := out.String() + stderr.String(); code != c.code || !strings.Contains(text, c.has) || c.has == "" && (strings.Contains(text, bound) || out.Len() == 0) {
				t.Errorf("code %d:\n%s", code, text)
			}
		})
	}
}
