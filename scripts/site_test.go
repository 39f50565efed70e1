package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/test/raytest"
)

// TestSite: `make site` makes the web site, and fails with a link that leads nowhere.
func TestSite(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^MATERIAL_VERSION := (\S+)$`).FindSubmatch(makefile)
	if version == nil {
		t.Fatal("the Makefile has no version of mkdocs-material")
	}
	dir := filepath.Join(t.TempDir(), "a site")
	venv := filepath.Join(dir, "venv")
	uv := raytest.Uv(t)
	run := func(name string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, append(append(os.Environ(), uv.Env...), "NO_MKDOCS_2_WARNING=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if err := os.CopyFS(filepath.Join(dir, "docs"), os.DirFS("../docs")); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"../mkdocs.yml": "mkdocs.yml", "site.py": "scripts/site.py"} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, filepath.Dir(to)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"venv", "--quiet", "--python", "python3", venv}, {"pip", "install", "--quiet", "--python", filepath.Join(venv, "bin", "python"), "mkdocs-material==" + string(version[1])}} {
		if out, err := run(uv.Path, args...); err != nil {
			t.Fatalf("uv %q: %v: %s", args, err, out)
		}
	}
	mkdocs := filepath.Join(venv, "bin", "mkdocs")
	build := regexp.MustCompile(`(?m)^\t.*bin/mkdocs (build .*)$`).FindSubmatch(makefile)
	if build == nil {
		t.Fatal("the Makefile builds no site")
	}
	args := strings.Fields(string(build[1]))
	if out, err := run(mkdocs, args...); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, page := range []string{"index.html", "slurm/index.html", "search/search_index.json"} {
		if _, err := os.Stat(filepath.Join(dir, "bin", "site", page)); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "docs", "ci.md"), []byte("# CI\n\n[nowhere](slurm.md#no-such-heading)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run(mkdocs, args...); err == nil || !strings.Contains(out, "no-such-heading") {
		t.Errorf("a broken link: %v: %s", err, out)
	}
}
