package objects

import (
	"testing"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/spec"
)

func TestRayVersion(t *testing.T) {
	for image, want := range map[string]string{
		"rayproject/ray:2.60.0": "2.60.0", "rayproject/ray:2.9.3-py311-gpu": "2.9.3", "host:5000/ray:2.52.1": "2.52.1", "me/train:v5": "", "host:5000/ray": "",
		"host/My-Ray_gpu:2.55.1.post1": "2.55.1", "verlai/verl:0.9.1": "", "ray/train:0.9.1": "",
	} {
		if got := rayVersion(spec.For(&spec.ClusterSpec{Image: image}, kuberayspec.Name)); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}
