package controller

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestSayings compares what the keeper knows of Slurm's reasons with this package; with RAYCTL_UPDATE_GOLDEN it writes it, as `make docs` does.
func TestSayings(t *testing.T) {
	const path = "../../keeper/rayctl_keeper/slurm/controller/sayings.py"
	want := pythonSayings()
	if os.Getenv("RAYCTL_UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is not what `make docs` makes of this package: %v", path, err)
	}
}

func pythonSayings() string {
	var b strings.Builder
	b.WriteString("\"\"\"Slurm's reasons of jobs that wait, in words. Made from slurm/controller by \"make docs\".\"\"\"\n\nSAYINGS = {\n")
	for _, name := range slices.Sorted(maps.Keys(sayings)) {
		fmt.Fprintf(&b, "    %q: %q,\n", name, sayings[name].message)
	}
	b.WriteString("}\n# Families of reasons, by how they begin.\nLIMITS = (\n")
	for _, l := range limits {
		fmt.Fprintf(&b, "    (%q, %q),\n", l.prefix, l.who)
	}
	b.WriteString(")\n# For which a job can never start.\nNEVER = (\n")
	for _, name := range never {
		fmt.Fprintf(&b, "    %q,\n", name)
	}
	b.WriteString(")\n")
	return b.String()
}
