package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestRun runs one job through its life, with all later queries about it.
func TestRun(t *testing.T) {
	u := newUser(t)
	u.write("w d/$(x) é/main.py", "open('model.pt', 'w').close()\n"+printArguments)
	receipt, report := filepath.Join(u.dir, "receipt.json"), filepath.Join(u.dir, "report.xml")
	args := append([]string{"run", "--name", "once", "--working-dir", "w d/$(x) é", "--env", "CODE=3", "--receipt", receipt, "--junit", report, "--", "python", "main.py"}, hostile...)
	r := u.want(3, args...)
	if d := cmp.Diff(strings.Join(hostile, "\x00"), r.out); d != "" {
		t.Errorf("the driver's output: %s", d)
	}
	first, _, _ := strings.Cut(r.err, "\n")
	contains(t, "the first line", first, "Starting run once on this machine (default launcher)")
	contains(t, "stderr", r.err, "once failed: the driver exited with code 3", "node-seconds",
		"the job wrote 1 file into Ray's copy of its working directory, which is removed with the cluster: model.pt; it is kept in working-dir/ of $RAYCTL_OUTPUT_DIR (/")
	data, err := os.ReadFile(receipt)
	if err != nil {
		t.Fatal(err)
	}
	rc := decode[launcher.Receipt](t, string(data))
	if rc.Exit.Code != 3 || rc.Exit.Origin != "driver" || rc.Durations.Total <= 0 || len(rc.Timeline) == 0 {
		t.Errorf("the receipt: %s", data)
	}
	contains(t, "the report", u.read("report.xml"), `<testsuite name="rayctl.once" tests="1" failures="1" errors="0"`, `<failure type="driver-failed" message="failed: the driver exited with code 3">`, "ünï😀")

	t.Run("again", func(t *testing.T) { // the record is shown, without a second driver
		u := u.in(t)
		again := u.want(3, args...)
		if again.out != r.out || !strings.Contains(again.err, "record") {
			t.Errorf("%+v", again)
		}
		other := u.want(65, "run", "--name", "once", "--", "echo", "other")
		contains(t, "the refusal", other.err, "once")
	})
	t.Run("afterwards", func(t *testing.T) {
		u := u.in(t)
		if got := u.want(0, "logs", "once").out; got != r.out {
			t.Errorf("logs: %q", got)
		}
		u.want(3, "logs", "-f", "once")
		s := decode[launcher.Status](t, u.want(0, "status", "once", "-o", "json").out)
		if s.Phase != runstate.Gone || s.Exit == nil || s.Exit.Code != 3 {
			t.Errorf("status: %+v", s)
		}
		contains(t, "history", u.want(0, "history").out, "once", "driver-failed", "python main.py")
		contains(t, "ls -a", u.want(0, "ls", "-a").out, "once")
		if out := u.want(0, "ls", "-o", "name").out; strings.Contains(out, "once") {
			t.Errorf("ls shows what has ended: %s", out)
		}
		u.want(65, "submit", "once", "--", "true")
		contains(t, "up", u.want(65, "up", "once").err, "once", "--recreate") // a record is not replaced just for its name
		if got := u.want(0, "logs", "once").out; got != r.out {
			t.Errorf("logs after up: %q", got)
		}
		u.want(65, "run", "--name", "once", "--recreate", "--working-dir", "nosuch", "--", "true")
		u.want(runstate.CodeConfig, "run", "--name", "once", "--recreate", "--set", "ray.python=/nosuch/python", "--", "true")
		if got := u.want(0, "logs", "once").out; got != r.out {
			t.Errorf("logs after launches that were refused: %q", got)
		}
		u.want(0, "down", "once")
	})
}

// TestRunShapesItsReceipt runs without notes: stdout has the receipt alone, stderr the driver's output alone. The driver imports a package that uv installs.
func TestRunShapesItsReceipt(t *testing.T) {
	u := newUser(t)
	u.write("rayctl.yaml", "name: shaped\njob: {entrypoint: 'python -c \"import iniconfig; print(\\\"hello\\\")\"; kill -9 $$'}\n")
	r := u.want(137, "run", "-q", "-o", "json", "--uv", "iniconfig")
	rc := decode[launcher.Receipt](t, r.out)
	if r.err != "hello\n" || rc.Exit.Code != 137 || rc.Exit.Origin != "driver" || rc.OutputDir != "" || !strings.HasPrefix(rc.Name, "shaped-") {
		t.Errorf("%+v", r)
	}
}
