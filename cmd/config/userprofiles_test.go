package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
)

// TestProfiles: each profile says which launcher it chooses, and has the keys of the one named default below its own.
func TestProfiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("RAYCTL_PROFILE", "named")
	if err := os.MkdirAll(filepath.Join(dir, "rayctl"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "profiles:\n  default: {slurm: {partition: cpu}}\n  both: {slurm: {}, kuberay: {}}\n  gpu: {slurm: {account: a}}\n  named: {launcher: k8s}\n  sizes: {image: i}\n"
	if err := os.WriteFile(filepath.Join(dir, "rayctl", "config.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddSelection(fs)
	all, err := Profiles(Options{Flags: fs, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	want := []Profile{{Name: "both", Chooses: true}, {Name: "default", Applies: true, Launcher: "slurm", Chooses: true}, {Name: "gpu", Launcher: "slurm", Chooses: true},
		{Name: "named", Applies: true, Launcher: "kuberay", Chooses: true}, {Name: "sizes"}}
	if len(all) != len(want) {
		t.Fatalf("%d profiles, want %d", len(all), len(want))
	}
	for i, p := range all {
		if p.Spec.Sections["slurm"] == nil {
			t.Errorf("%s has not the keys of the profile named default", p.Name)
		}
		p.Spec = nil
		if p != want[i] {
			t.Errorf("%+v, want %+v", p, want[i])
		}
	}
}
