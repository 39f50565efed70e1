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

	"github.com/rayctl/rayctl/test/needs"
)

const module = "github.com/rayctl/rayctl"

// TestGoInstall installs a version as a data scientist does, from a tagged copy of these sources that stands in for GitHub.
func TestGoInstall(t *testing.T) {
	needs.RealSystem(t)
	const tag = "v0.98.7"
	origin, dir := tagged(t, tag), t.TempDir()
	modules := filepath.Join(dir, "mod")
	links(t, strings.TrimSpace(run(t, nil, "go", "env", "GOMODCACHE")), modules)
	env := []string{
		"GOBIN=" + filepath.Join(dir, "bin"), "GOMODCACHE=" + modules, "GOWORK=off",
		"GOFLAGS=-trimpath -modcacherw -ldflags=-s", "CGO_ENABLED=0", // as in packages: then most is compiled already
		"GOPRIVATE=" + module, "GOSUMDB=off", // our version is in no public database
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + origin + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + module,
	}
	run(t, env, "go", "install", module+"/cmd/rayctl@"+tag)

	binary := filepath.Join(dir, "bin", "rayctl")
	if out := run(t, nil, binary, "version"); !strings.HasPrefix(out, "rayctl "+tag+" (") {
		t.Errorf("rayctl version: %q", out)
	}
	// A file that is embedded and not in the repository, or not as it is here, would be missed by users alone.
	here, there := embedded(t, root), embedded(t, filepath.Join(modules, module+"@"+tag))
	if d := cmp.Diff(here, there); d != "" || len(here) == 0 {
		t.Errorf("%d embedded files (-here +installed):\n%s", len(here), d)
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
