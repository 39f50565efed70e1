package cmd

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/rayctl/rayctl/cmd/app/apptest"
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
