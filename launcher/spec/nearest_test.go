package spec_test

import (
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
)

func TestNearest(t *testing.T) {
	names := []string{"workers", "workingDir", "replicas", "partition", "gpus"}
	for s, want := range map[string]string{"worker": "workers", "wokrers": "workers", "working-dir": "workingDir", "gpu": "gpus", "cheese": "", "": "", "PARTITON": "partition"} {
		if got := spec.Nearest(s, names); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
