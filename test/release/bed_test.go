package release

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	_ "github.com/rayctl/rayctl/cmd" // what is built here: with other code the result of these tests is not taken from go's cache
	"github.com/rayctl/rayctl/test/needs"
)

// root is the repository.
const root = "../.."

// target is a system for which a release has files, as goreleaser and Go name it.
type target struct{ system, arch string }

func (t target) String() string { return t.system + "_" + t.arch }

// targets are the systems of .goreleaser.yaml; here is this machine's.
var (
	targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
	here    = target{runtime.GOOS, runtime.GOARCH}
)

// snapshot is what `make snapshot` makes.
type snapshot struct {
	dir     string // the files of a release
	version string
}

// newSnapshot runs goreleaser on .goreleaser.yaml, with directories of the test, and little compression, which takes most of a release's time.
func newSnapshot(t *testing.T) snapshot {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Builds []map[string]any
		NFPMs  []map[string]any `yaml:"nfpms"`
		Rest   map[string]any   `yaml:",inline"`
	}
	dist := binDir(t, "dist-")
	made := snapshot{dir: filepath.Join(absolute(t, root), dist)}
	ours := strings.NewReplacer("bin/share", binDir(t, "share-"), "dist/*.whl", dist+"/*.whl")
	if err := yaml.Unmarshal([]byte(ours.Replace(string(text))), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Builds) != 1 || len(config.NFPMs) != 1 {
		t.Fatalf(".goreleaser.yaml has %d builds and %d nfpms; this test knows of one each", len(config.Builds), len(config.NFPMs))
	}
	for format, compression := range map[string]string{"deb": "none", "rpm": "gzip:1"} {
		section, _ := config.NFPMs[0][format].(map[string]any)
		if section == nil {
			section = map[string]any{}
		}
		section["compression"] = compression
		config.NFPMs[0][format] = section
	}
	config.Rest["dist"] = dist
	if text, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "goreleaser.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	tools := strings.Fields(run(t, []string{"MAKEFLAGS="}, needs.Program(t, "make", "make"), "-s", "release-tools"))
	path := "PATH=" + filepath.Dir(tools[1]) + ":" + os.Getenv("PATH")
	run(t, []string{path, "GORELEASER_CURRENT_TAG=v1.2.2"}, tools[0], "release", "--snapshot", "-f", file)

	metadata, err := os.ReadFile(filepath.Join(made.dir, "metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	var about struct{ Version string }
	if err := json.Unmarshal(metadata, &about); err != nil || !strings.HasPrefix(about.Version, "1.2.3-snapshot.") {
		t.Fatalf("the version after v1.2.2 is %q, %v", about.Version, err)
	}
	made.version = about.Version
	return made
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// binDir is a directory in place of bin/share or dist, relative to the repository, as goreleaser's patterns want it: other tests and makes may use these.
func binDir(t *testing.T, prefix string) string {
	t.Helper()
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(bin, prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join("bin", filepath.Base(dir))
}

// file is the release's file with this ending for a target.
func (s snapshot) file(t *testing.T, of target, ending string) string {
	t.Helper()
	name := "rayctl_" + s.version + "_" + of.String() + ending
	switch deb := strings.Replace(s.version, "-", "~", 1); ending { // packages are named by the conventions of their systems
	case ".deb":
		name = "rayctl_" + deb + "_" + of.arch + ending
	case ".rpm":
		name = "rayctl-" + deb + "-1." + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[of.arch] + ending
	}
	path := filepath.Join(s.dir, name)
	if _, err := os.Stat(path); err != nil {
		all, _ := filepath.Glob(filepath.Join(s.dir, "*"))
		t.Fatalf("%v; there are %q", err, all)
	}
	return path
}

// run runs a command in the repository and returns its stdout.
func run(t *testing.T, env []string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, out, &stderr)
	}
	return string(out)
}
