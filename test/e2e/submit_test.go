package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestSubmit runs jobs on an existing cluster.
func TestSubmit(t *testing.T) {
	u := sharedCluster(t)
	u.write("wd/main.py", printArguments)
	args := append([]string{"submit", "shared", "--working-dir", "wd", "--env", "CODE=5", "--submission-id", "hostile", "--", "python", "main.py"}, hostile...)
	for range 2 { // the second time it is the same job
		r := u.want(5, args...)
		if d := cmp.Diff(strings.Join(hostile, "\x00"), r.out); d != "" {
			t.Error(d)
		}
	}
	contains(t, "the refusal", u.want(65, "submit", "shared", "--submission-id", "hostile", "--", "true").err, "hostile")
	submitRepository(t, u)
	u.want(0, "submit", "shared", "-q", "--", "true")
	killed := u.want(128+9, "submit", "shared", "-o", "json", "--", "sh", "-c", "echo hello; kill -9 $$")
	contains(t, "what is said of a driver that a signal ended", killed.err, "hello\n", "the driver was ended by SIGKILL, exit code 137")
	if job := decode[map[string]any](t, killed.out); job["status"] != "FAILED" {
		t.Errorf("%+v", job)
	}
	if got := u.want(0, "logs", "shared", "hostile").out; got != strings.Join(hostile, "\x00") {
		t.Errorf("logs: %q", got)
	}
	contains(t, "the table of jobs", u.want(0, "jobs", "shared").out, "  sh -c 'echo hello; kill -9 $$'\n")
	jobs := decode[[]map[string]any](t, u.want(0, "jobs", "shared", "-o", "json").out)
	if len(jobs) < 3 || jobs[0]["status"] != "FAILED" || jobs[0]["driver_exit_code"] != 137.0 {
		t.Errorf("jobs: %+v", jobs)
	}
	const cause = "FileNotFoundError: [Errno 2] No such file or directory: '/no/such.txt'" // in the log of Ray's agent; Ray's API returns "maybe there are some network problems"
	broken := u.want(runstate.CodeStartFailed, "submit", "shared", "--submission-id", "broken", "--runtime-env-json", `{"pip": ["-r /no/such.txt"]}`, "--", "true")
	contains(t, "a runtime environment that cannot be made", broken.err, "job broken failed: the driver did not start: "+cause)
	contains(t, "what Ray wrote about it", broken.out, "The end of Ray's runtime_env_agent.err on node ", cause)
}

// submitRepository submits from a git work tree, of which the job gets what git tracks.
func submitRepository(t *testing.T, u *user) {
	t.Helper()
	for name, content := range map[string]string{".gitignore": "*.ckpt\ndata/\n", "kept.ckpt": "", "x.ckpt": "", "y.ckpt": "", "data/z": "12345", "main.py": "import os; print(sorted(os.listdir()))"} {
		u.write("repository/"+name, content)
	}
	for _, args := range []string{"init -q", "add -f kept.ckpt"} {
		c := exec.CommandContext(t.Context(), "git", strings.Fields(args)...)
		c.Dir = filepath.Join(u.dir, "repository")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
	}
	r := u.want(0, "submit", "shared", "--working-dir", "repository", "--", "python", "main.py")
	if want := "['.gitignore', 'kept.ckpt', 'main.py']\n"; r.out != want {
		t.Errorf("the job has %q, want %q", r.out, want)
	}
	contains(t, "what was sent", r.err, "sent 3 files, 51 B; left out by .gitignore: data/ (5 B), *.ckpt (2); `--excludes '!data'` sends data/\n")
}
