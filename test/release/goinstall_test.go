package release

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/rayctl/rayctl/test/needs"
)

const module = "github.com/rayctl/rayctl"

// TestGoInstall installs a version as a data scientist and the templates for CI do, from a tagged copy of these sources that stands in for GitHub.
func TestGoInstall(t *testing.T) {
	needs.RealSystem(t)
	const tag = "v0.98.7"
	origin, dir := tagged(t, tag), t.TempDir()
	modules := filepath.Join(dir, "mod")
	links(t, strings.TrimSpace(run(t, nil, "go", "env", "GOMODCACHE")), modules)
	env := []string{
		"GOMODCACHE=" + modules, "GOWORK=off",
		"GOFLAGS=-trimpath -modcacherw -ldflags=-s", "CGO_ENABLED=0", // as in packages: then most is compiled already
		"GOPRIVATE=" + module, "GOSUMDB=off", // our version is in no public database
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + origin + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + module,
	}
	// Where there is no rayctl, the templates for CI call `go install`; they choose its directory themselves.
	env = append(env, "RUN_RAYCTL_VERSION="+tag, "PATH="+filepath.Dir(goProgram(t))+":/usr/bin:/bin")
	for name, c := range map[string]struct {
		shell          []string // as the runner calls it; GitLab's uses that of the image
		script, binary string
	}{
		"GitHub": {[]string{"bash", "--noprofile", "--norc", "-eo", "pipefail"}, installStep(t), filepath.Join(dir, "runner", "rayctl", "rayctl")},
		"GitLab": {[]string{"sh", "-e"}, beforeScript(t) + "\ncommand -v rayctl", filepath.Join(dir, "project", ".rayctl", "rayctl")},
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(c.script), 0o600); err != nil {
			t.Fatal(err)
		}
		added := filepath.Join(dir, name+"-path")
		found := run(t, append(env, "RUNNER_TEMP="+filepath.Join(dir, "runner"), "GITHUB_PATH="+added, "CI_PROJECT_DIR="+filepath.Join(dir, "project")), append(c.shell, file)...)
		if name == "GitHub" { // its runner puts these before PATH of the steps that follow
			text, err := os.ReadFile(added)
			if err != nil {
				t.Fatal(err)
			}
			found = strings.TrimSpace(string(text)) + "/rayctl\n"
		}
		if found != c.binary+"\n" {
			t.Errorf("%s: the next commands use %q, want %q", name, found, c.binary)
		}
		if out := run(t, nil, c.binary, "version"); !strings.HasPrefix(out, "rayctl "+tag+" (") {
			t.Errorf("%s: rayctl version: %q", name, out)
		}
	}
	// A file that is embedded and not in the repository, or not as it is here, would be missed by users alone.
	here, there := embedded(t, root), embedded(t, filepath.Join(modules, module+"@"+tag))
	if d := cmp.Diff(here, there); d != "" || len(here) == 0 {
		t.Errorf("%d embedded files (-here +installed):\n%s", len(here), d)
	}
}

func goProgram(t *testing.T) string {
	t.Helper()
	return filepath.Join(strings.TrimSpace(run(t, nil, "go", "env", "GOROOT")), "bin", "go")
}

// installStep is the step of the action in ci/github that installs rayctl.
func installStep(t *testing.T) string {
	t.Helper()
	var action struct {
		Runs struct{ Steps []struct{ Name, Run string } }
	}
	readYAML(t, "ci/github/action.yml", &action)
	for _, s := range action.Runs.Steps {
		if s.Name == "Install rayctl" {
			return s.Run
		}
	}
	t.Fatal("the action has no step that installs rayctl")
	return ""
}

// beforeScript is what the template in ci/gitlab runs first.
func beforeScript(t *testing.T) string {
	t.Helper()
	var file struct {
		Rayctl struct {
			BeforeScript []string `yaml:"before_script"`
		} `yaml:".rayctl"`
	}
	readYAML(t, "ci/gitlab/rayctl.yml", &file)
	return strings.Join(file.Rayctl.BeforeScript, "\n")
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(path, err)
	}
}

// links makes a module cache of links to what is in this machine's, without rayctl: unpacking all the others takes 10 s of processor.
func links(t *testing.T, from, to string) {
	t.Helper()
	own := map[string]bool{"": true, "cache": true, "cache/download": true, "cache/download/github.com": true, "github.com": true}
	for dir := range own {
		if err := os.MkdirAll(filepath.Join(to, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join(from, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			if own[name] || e.Name() == "rayctl" || name == "cache/lock" || name == "cache/vcs" {
				continue
			}
			if err := os.Symlink(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// tagged is a repository of the sources as they are, with one commit and the tag.
func tagged(t *testing.T, tag string) string {
	t.Helper()
	origin, git := t.TempDir(), needs.Program(t, "git", "git")
	sources, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR=" + filepath.Join(origin, ".git"), "GIT_WORK_TREE=" + sources}
	run(t, []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}, git, "init", "-q", origin)
	run(t, env, git, "add", "-A", ".")
	run(t, env, git, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-q", "-m", "A release")
	run(t, env, git, "tag", tag)
	return origin
}

// embedded are the contents of all files that rayctl embeds.
func embedded(t *testing.T, dir string) map[string]string {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, []string{"GOWORK=off"}, "go", "list", "-C", dir, "-deps", "-json=Dir,Module,EmbedFiles", "./cmd/rayctl")
	found := map[string]string{}
	for list := json.NewDecoder(strings.NewReader(out)); ; {
		var p struct {
			Dir        string
			Module     struct{ Path string }
			EmbedFiles []string
		}
		if err := list.Decode(&p); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		for _, name := range p.EmbedFiles {
			if p.Module.Path != module {
				continue
			}
			path := filepath.Join(p.Dir, name)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found[strings.TrimPrefix(path, dir)] = string(text)
		}
	}
}
