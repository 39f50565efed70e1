package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPythonPackage uses the Python package as a program does: a cluster for a block, a job on it, a run, and their errors.
func TestPythonPackage(t *testing.T) {
	u := newUser(t)
	defer u.do("down", "py", "--now")
	const script = `import os, rayctl
options = ["--workers", "1", "--cpus-per-worker", "1"]
with rayctl.cluster("py", options=options) as started:
    import ray
    ray.init(log_to_driver=False)
    print("task", ray.get(ray.remote(lambda: 6 * 7).remote()), started["phase"])
    job = rayctl.submit(["sh", "-c", "echo $WHO; exit 3"], cluster="py", env={"WHO": "me"})
    try:
        rayctl.wait("py", job["submissionId"])
    except rayctl.RunFailed as e:
        print("job", e.code, rayctl.logs("py", job["submissionId"]))
print("after", rayctl.status("py")["phase"], os.environ.get("RAY_ADDRESS"))
try:
    rayctl.run(["sh", "-c", "echo $WHO; exit 4"], options=options, env={"WHO": "you"})
except rayctl.RunFailed as e:
    print("run", e.code, e.output, e.receipt["exit"]["cause"])
try:
    rayctl.run(["sleep", "600"], options=options + ["--name", "shortlived", "--max", "5s"], check=False)
except rayctl.LimitError as e:
    print("limit", e.code, e.receipt["exit"]["cause"])
try:
    rayctl.wait("shortlived")
except rayctl.LimitError as e:
    print("waited", e.code, rayctl.wait("shortlived", check=False)["exit"]["cause"])
try:
    rayctl.run("true")
except rayctl.UsageError as e:
    print("string", e.next_step)
`
	source, err := filepath.Abs("../../python")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, u.python, "-c", script)
	c.Dir, c.Env = u.dir, environment(u.python, "PYTHONPATH="+source, "PYTHONDONTWRITEBYTECODE=1", "RAYCTL_BINARY="+home.rayctl)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	contains(t, "the output", string(out), "task 42 Ready", `job 3 b'me\n'`, "after Gone None", `run 4 b'you\n' driver-failed`,
		"limit 124 max", "waited 124 max", `string write ["python", "train.py"]`)
}
