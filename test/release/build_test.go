package release

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"

	_ "github.com/rayctl/rayctl/cmd" // what is built here: with other code the result of these tests is not taken from go's cache
	"github.com/rayctl/rayctl/test/needs"
)

// root is the repository.
const root = "../.."

// version and date of the packages that are tested.
const (
	version = "1.2.3"
	date    = "2026-01-02T03:04:05Z"
)

// config is what .goreleaser.yaml says about packages. It is the one place: goreleaser makes releases of it, with every package for every system;
// it takes minutes to build, so the tests have nfpm alone, which is the part of goreleaser that makes packages, and follow these sections.
type config struct {
	Env    []string
	Before struct{ Hooks []string }
	Builds []struct {
		Main           string
		Flags, Ldflags []string
	}
	NFPMs []map[string]any `yaml:"nfpms"`
}

// load reads the file with a directory of the test in place of bin/share.
func load(t *testing.T, share string) config {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{"Version": version, "CommitDate": date}
	for _, unused := range []string{"ProjectName", "ConventionalFileName", "Binary", "Os", "Arch", "CommitTimestamp", "ShortCommit"} {
		fields[unused] = "unused"
	}
	parsed, err := template.New("").Option("missingkey=error").Funcs(template.FuncMap{"incpatch": func(s string) string { return s }}).
		Parse(strings.ReplaceAll(string(text), "bin/share", share))
	if err != nil {
		t.Fatal(err)
	}
	var filled strings.Builder
	if err := parsed.Execute(&filled, fields); err != nil {
		t.Fatal(err)
	}
	var c config
	if err := yaml.Unmarshal([]byte(filled.String()), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Builds) != 1 || len(c.NFPMs) != 1 {
		t.Fatalf(".goreleaser.yaml has %d builds and %d nfpms; this test knows of one each", len(c.Builds), len(c.NFPMs))
	}
	return c
}

// packages makes the deb and the rpm for this machine as goreleaser does, and returns their directory.
func packages(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	c := load(t, filepath.Join(dir, "share"))
	for _, hook := range c.Before.Hooks {
		run(t, nil, strings.Fields(hook)...)
	}
	binary, build := filepath.Join(dir, "rayctl"), c.Builds[0]
	run(t, c.Env, append(append([]string{"go", "build", "-o", binary, "-ldflags", strings.Join(build.Ldflags, " ")}, build.Flags...), build.Main)...)

	info := maps.Clone(c.NFPMs[0])
	info["name"], info["version"], info["platform"], info["arch"] = info["package_name"], version, "linux", runtime.GOARCH
	contents, ok := info["contents"].([]any)
	if !ok {
		t.Fatalf("contents: %v", info["contents"])
	}
	contents = append(contents, map[string]any{"src": binary, "dst": "/usr/bin/rayctl", "file_info": map[string]any{"mode": 0o755, "mtime": date}})
	info["contents"] = contents
	for _, own := range []string{"package_name", "formats", "file_name_template"} { // goreleaser's keys; nfpm refuses others that it does not know
		delete(info, own)
	}
	for format, compression := range map[string]string{"deb": "none", "rpm": "gzip:1"} { // a release takes 9 s of processor for it
		section, _ := info[format].(map[string]any)
		if section = maps.Clone(section); section == nil {
			section = map[string]any{}
		}
		section["compression"] = compression
		info[format] = section
	}
	text, err := yaml.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "nfpm.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	nfpm := strings.TrimSpace(run(t, []string{"MAKEFLAGS="}, needs.Program(t, "make", "make"), "-s", "nfpm"))
	for _, format := range []string{"deb", "rpm"} {
		run(t, nil, nfpm, "package", "-f", file, "-p", format, "-t", filepath.Join(dir, "rayctl."+format))
	}
	return dir
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
