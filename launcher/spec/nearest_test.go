package spec

import (
	"testing"

	"github.com/rayctl/rayctl/launcher/spec/nearest"
)

func TestNearest(t *testing.T) {
	names := []string{"workers", "workingDir", "replicas", "partition", "gpus"}
	for s, want := range map[string]string{"worker": "workers", "wokrers": "workers", "working-dir": "workingDir", "gpu": "gpus", "cheese": "", "": "", "PARTITON": "partition"} {
		if got := nearest.Of(s, names); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	for text, want := range map[string]string{"My Project!": "my-project", "": "ray", "日本": "ray", "a.b": "a-b", "/": "ray", "x123456789012345678901234567890123456789": "x123456789012345678901234567890123"} {
		if got := NameFrom(text); got != want || CheckName(got) != nil {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
