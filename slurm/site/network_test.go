package site

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
)

// TestConnecting: doctor asks a node for the address that a launch would take.
func TestConnecting(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{
		{"launcher: slurm\nhead: {cpus: 1}", 1},
		{"launcher: slurm\nhead: {cpus: 1}\nslurm: {expose: node}", 2},
		{"launcher: slurm\nhead: {cpus: 1}\nworkers: [{name: a, cpus: 1, replicas: 1, maxReplicas: 3}]", 4},
	} {
		s, err := spec.Decode(strings.NewReader(c.text), "rayctl.yaml")
		if err != nil {
			t.Fatal(err)
		}
		spec.Default(s)
		if got := connecting(s); got != c.want {
			t.Errorf("%s: %d, want %d", c.text, got, c.want)
		}
	}
}
