package release

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testChecksums: checksums.txt has all files of the release, as they are.
func (s snapshot) testChecksums(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(s.dir, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if sum, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			listed[name] = sum
		}
	}
	there := map[string]string{}
	for _, ending := range []string{".tar.gz", ".deb", ".rpm", ".cdx.json"} {
		file := s.file(t, ending)
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		there[filepath.Base(file)] = hex.EncodeToString(sum[:])
	}
	if d := cmp.Diff(there, listed); d != "" {
		t.Errorf("checksums.txt (-files +listed):\n%s", d)
	}
}

// testArchive: what somebody without a package manager unpacks below ~/.local is laid out as there, and of root.
func (s snapshot) testArchive(t *testing.T) {
	file, dir := s.file(t, ".tar.gz"), t.TempDir()
	if want := "rayctl_" + s.version + "_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz"; filepath.Base(file) != want {
		t.Errorf("the archive is %s, want %s", filepath.Base(file), want)
	}
	run(t, nil, "tar", "-C", dir, "-xpzf", file)
	got := files(t, dir, "")
	for name, mode := range map[string]os.FileMode{
		"rayctl": 0o755, "LICENSE": 0o644, "README.md": 0o644, "share/man/man1/rayctl.1.gz": 0o644, "share/man/man1/rayctl-run.1.gz": 0o644,
		"share/bash-completion/completions/rayctl": 0o644, "share/fish/vendor_completions.d/rayctl.fish": 0o644, "share/zsh/site-functions/_rayctl": 0o644,
	} {
		if got[name] != mode {
			t.Errorf("%s in the archive has mode %v, want %v", name, got[name], mode)
		}
	}
	if out := run(t, nil, filepath.Join(dir, "rayctl"), "version"); !strings.HasPrefix(out, "rayctl v"+s.version+" (") {
		t.Errorf("rayctl version: %q", out)
	}
}

// testSBOM: it lists the modules in the binary, with their versions.
func (s snapshot) testSBOM(t *testing.T) {
	text, err := os.ReadFile(s.file(t, ".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BOMFormat string `json:"bomFormat"`
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; bom.BOMFormat != "CycloneDX" || c.Name != module || c.Version != "v"+s.version {
		t.Errorf("it is %s of %s %s, want CycloneDX of %s v%s", bom.BOMFormat, c.Name, c.Version, module, s.version)
	}
	listed := map[string]string{}
	for _, c := range bom.Components {
		listed[c.Name] = c.Version
	}
	name, version, _ := strings.Cut(strings.TrimSpace(run(t, nil, "go", "list", "-m", "github.com/spf13/cobra")), " ")
	if listed[name] != version || listed["std"] == "" {
		t.Errorf("%s has version %q, want %q; std %q", name, listed[name], version, listed["std"])
	}
}
