package cmd

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestRequirementsRefused: the error for an unreadable file is one sentence with file, line, key and next step, before any launcher is made.
func TestRequirementsRefused(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if out, err := exec.Command("mkfifo", "pipe.txt").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	apptest.WriteFiles(t, dir, map[string]string{
		"constrained.txt": "a\n-c pins.txt\n", "a.txt": "-r b.txt\n", "b.txt": "-r a.txt\n", "incomplete.txt": "-r nosuch.txt\n", "list.yaml": "[a]\n", "empty.yml": "",
		"large.txt": strings.Repeat("#", 5<<20), "zero.txt": "a\x00b",
	})
	for _, c := range []struct{ job, want string }{
		{"pip: nosuch.txt", "rayctl.yaml:1: job.pip: the requirements file " + dir + "/nosuch.txt does not exist: paths are relative to the cluster file"},
		{"uv: numpy", "packages by name are a list, as in [numpy, \"ray[tune]\"]"},
		{"runtimeEnv: {pip: {packages: nosuch.txt}}", "rayctl.yaml:1: job.runtimeEnv.pip.packages: the requirements file " + dir + "/nosuch.txt does not exist"},
		{"runtimeEnv: {conda: nosuch.yml}", "rayctl.yaml:1: job.runtimeEnv.conda: the conda environment " + dir + "/nosuch.yml does not exist"},
		{"runtimeEnv: {conda: list.yaml}", "list.yaml is not a map of keys: `conda env export` writes one"},
		{"runtimeEnv: {conda: empty.yml}", "empty.yml is not a map of keys"},
		{"pip: .", "job.pip: the requirements file " + dir + " is not a regular file: give the file itself"},
		{"pip: pipe.txt", "is not a regular file"},
		{"pip: large.txt", "is larger than 4 MiB"},
		{"pip: zero.txt", "is not a text file in UTF-8"},
		{"pip: https://example.com/r.txt", "https://example.com/r.txt is a URL, not a file of this machine: download it first"},
		{"pip: 3", "job.pip: must be a list, or the name of a requirements file, not 3, a number"},
		{"pip: {packages: [a]}", "job.pip: must be a list, or the name of a requirements file, not a map"},
		{"pip: constrained.txt", "the line \"-c pins.txt\" of " + dir + "/constrained.txt needs " + dir + "/pins.txt, which does not exist: paths in requirements are relative to"},
		{"pip: a.txt", "b.txt has the line \"-r a.txt\", and that file includes it: remove one of the two lines"},
		{"pip: incomplete.txt", "the requirements file " + dir + "/nosuch.txt does not exist: -r in " + dir + "/incomplete.txt is relative to that file's directory"},
		{"pip: [a, -r requirements.txt]", "job.pip[1]: -r requirements.txt names a file that the nodes do not have: a requirements file is given instead of the list, as in job.pip: requirements.txt"},
		{"runtimeEnv: {pip: [a]}", "pip has a field of its own: use job.pip, which takes a list or the name of a requirements file"},
		{"pip: [a], runtimeEnv: {pip: requirements.txt}", "use job.pip, which takes"},
		{"runtimeEnv: {uv: {packages: requirements.txt}}", "job.runtimeEnv.uv.packages: Ray accepts only a list there: use job.uv, which takes"},
	} {
		for _, verb := range []string{"run", "submit", "render"} {
			apptest.WriteFiles(t, dir, map[string]string{"rayctl.yaml": "job: {entrypoint: 'true', " + c.job + "}\n"})
			a, out, stderr := apptest.New()
			a.Launchers["local"] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) {
				t.Errorf("%s %s: the launcher is made", verb, c.job)
				return nil, os.ErrInvalid
			}
			code := a.Execute(context.Background(), NewRoot, []string{verb, "-q", "-f", "rayctl.yaml"})
			if text := stderr.String(); code != runstate.CodeSpec || out.Len() > 0 || strings.Count(text, "\n") != 1 || !strings.Contains(text, c.want) {
				t.Errorf("%s %s: code %d, stdout %q\ngot  %s\nwant %s", verb, c.job, code, out, text, c.want)
			}
		}
	}
}
