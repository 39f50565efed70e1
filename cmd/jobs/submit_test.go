package jobs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestCwd: every part of the entrypoint runs in job.cwd, and none does if it cannot be entered.
func TestCwd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "-it's $(here)")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	sh := func(cwd string) (string, error) {
		r := submitRequest(&spec.Job{Entrypoint: "pwd & wait; pwd", Cwd: cwd}, &launcher.Packages{RuntimeEnv: map[string]any{}}, "one", "dev")
		driver := exec.Command("sh", "-c", r.Entrypoint)
		driver.Env = os.Environ()
		for name, value := range r.RuntimeEnv["env_vars"].(map[string]string) {
			driver.Env = append(driver.Env, name+"="+value)
		}
		out, err := driver.Output()
		return string(out), err
	}
	if out, err := sh(dir); err != nil || out != dir+"\n"+dir+"\n" {
		t.Errorf("%v, %q", err, out)
	}
	if out, err := sh(dir + "/nosuch"); err == nil || strings.Count(out, "\n") != 1 { // what sh says
		t.Errorf("%v, %q", err, out)
	}
}

// TestVariables: the environment of a job names its cluster, its job, and the directory in which the programs begin its tasks. Where the cluster is not known it names the
// job alone.
func TestVariables(t *testing.T) {
	p := &launcher.Packages{RuntimeEnv: map[string]any{}}
	got := submitRequest(&spec.Job{Entrypoint: "true", Cwd: "/it's $HOME", Env: map[string]string{"A": "b"}}, p, "one", "dev").RuntimeEnv["env_vars"].(map[string]string)
	for name, want := range map[string]string{"A": "b", "RAYCTL_RUN": "dev", "RAYCTL_SUBMISSION_ID": "one", "RAYCTL_CWD": "/it%27s %24HOME"} {
		if got[name] != want {
			t.Errorf("%s=%q", name, got[name])
		}
	}
	got = submitRequest(&spec.Job{Entrypoint: "true"}, p, "one", "").RuntimeEnv["env_vars"].(map[string]string)
	if _, run := got["RAYCTL_RUN"]; run || got["RAYCTL_SUBMISSION_ID"] != "one" || got["RAYCTL_CWD"] != "" {
		t.Errorf("%v", got)
	}
}

// TestErrorLine: errorLine picks the same line as the keeper's error_line from messages of Ray, pip and uv about a runtime environment.
func TestErrorLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"runtime_env setup failed: Failed to set up runtime environment.\n":                                                           "runtime_env setup failed: Failed to set up runtime environment.",
		"Traceback (most recent call last):\n  File \"x\"\nFileNotFoundError: [Errno 2] No such file or directory: '/r.txt'\n\n---\n": "FileNotFoundError: [Errno 2] No such file or directory: '/r.txt'",
		"RuntimeError: Failed to install pip packages\nERROR: No matching distribution found for nosuch\nlogs end":                    "ERROR: No matching distribution found for nosuch",
		"details.\nerror: Couldn't parse requirement\n  cause: Expected one of":                                                       "error: Couldn't parse requirement",
	} {
		if got := errorLine(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
