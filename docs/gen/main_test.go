package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPagesAreFresh compares what is committed with what the code generates now.
func TestPagesAreFresh(t *testing.T) {
	for _, p := range pages {
		want, err := p.write("..")
		if err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		got, err := os.ReadFile(filepath.Join("..", p.name))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("docs/%s is stale; run `make docs`:\n%s", p.name, d)
		}
	}
}

func TestCell(t *testing.T) {
	if got, want := cell("a|b <c> *d* RAYCTL_OUTPUT_DIR"), "a\\|b &lt;c> \\*d\\* `RAYCTL_OUTPUT_DIR`"; got != want {
		t.Errorf("%q", got)
	}
}
