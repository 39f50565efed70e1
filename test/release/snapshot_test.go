package release

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/test/needs"
)

// TestSnapshot makes the release files of these sources by goreleaser, installs this machine's packages with dpkg and rpm into directories of their own,
// uses what they brought, and removes them; and reads the archives, the checksums and the bills of materials of all systems.
func TestSnapshot(t *testing.T) {
	needs.RealSystem(t)
	needs.That(t, runtime.GOOS == "linux", "Linux packages")
	needs.Root(t)
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin") // dpkg wants ldconfig
	s := newSnapshot(t)
	t.Run("checksums", s.testChecksums)
	for _, of := range targets {
		t.Run("archive of "+of.String(), func(t *testing.T) { s.testArchive(t, of) })
		t.Run("SBOM of "+of.String(), func(t *testing.T) { s.testSBOM(t, of) })
	}
	t.Run("deb", s.testDeb)
	t.Run("rpm", s.testRPM)
	t.Run("wheels", s.testWheels)
}

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
	var all []string
	for _, of := range targets {
		all = append(all, s.file(t, of, ".tar.gz"), s.file(t, of, ".cdx.json"), s.wheel(t, of))
		if of.system == "linux" {
			all = append(all, s.file(t, of, ".deb"), s.file(t, of, ".rpm"))
		}
	}
	there := map[string]string{}
	for _, file := range all {
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

// testArchive: what somebody without a package manager unpacks below ~/.local is laid out as there, and of root, with a program for the system in the name.
func (s snapshot) testArchive(t *testing.T, of target) {
	file, dir := s.file(t, of, ".tar.gz"), t.TempDir()
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
	built, err := buildinfo.ReadFile(filepath.Join(dir, "rayctl")) // of ELF and of Mach-O
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, s := range built.Settings {
		settings[s.Key] = s.Value
	}
	if settings["GOOS"] != of.system || settings["GOARCH"] != of.arch || settings["CGO_ENABLED"] != "0" {
		t.Errorf("the program is built with %v", settings)
	}
	if of != here {
		return
	}
	if out := run(t, nil, filepath.Join(dir, "rayctl"), "version"); !strings.HasPrefix(out, "rayctl v"+s.version+" (") {
		t.Errorf("rayctl version: %q", out)
	}
}

// testSBOM: it lists the modules in the binary, with their versions.
func (s snapshot) testSBOM(t *testing.T, of target) {
	text, err := os.ReadFile(s.file(t, of, ".cdx.json"))
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
