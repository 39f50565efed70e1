package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// hostile are arguments with special meaning in shells, YAML or URLs.
var hostile = []string{"", "a  b", "new\nline", "$(id)", "`id`", "it's", `"q"`, `b\s`, "*", "~", "#x", "-n", "ünï😀", "%20&?", "{{.}}", "a: b"}

// printArguments prints its arguments, NUL-separated, and exits with the code in CODE.
const printArguments = `import os, sys
sys.stdout.write("\0".join(sys.argv[1:]))
sys.exit(int(os.environ.get("CODE", "0")))
`

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
		"the job wrote 1 file into Ray's copy of its working directory, which is removed with the cluster: model.pt; results belong in $RAYCTL_OUTPUT_DIR")
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
		again := u.want(3, args...)
		if again.out != r.out || !strings.Contains(again.err, "record") {
			t.Errorf("%+v", again)
		}
		other := u.want(65, "run", "--name", "once", "--", "echo", "other")
		contains(t, "the refusal", other.err, "once")
	})
	t.Run("afterwards", func(t *testing.T) {
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

// TestEarlierAttempts shows the output of each attempt while the run lives, and after it; and gets what its driver left in the output directory. Each attempt is a case
// of the report.
func TestEarlierAttempts(t *testing.T) {
	u := newUser(t)
	u.write("rayctl.yaml", `name: again
job:
  entrypoint: 'echo weights > $RAYCTL_OUTPUT_DIR/model; echo try $RAYCTL_ATTEMPT; [ $RAYCTL_ATTEMPT = 2 ] || exit 3; exec sleep 1000'
  restarts: {driver: 1}
`)
	s := u.start(false, "run", "--name", "again", "--junit", "report.xml", "--fetch", "fetched")
	s.until("try 2", 1)
	each := func() {
		t.Helper()
		for n, want := range map[string]string{"1": "try 1\n", "2": "try 2\n"} {
			if got := u.want(0, "logs", "again", "--attempt", n).out; got != want {
				t.Errorf("attempt %s: %q", n, got)
			}
		}
		if got := u.want(3, "logs", "again", "--attempt", "1", "--tail", "1", "-f").out; got != "try 1\n" {
			t.Errorf("the end of attempt 1: %q", got)
		}
		u.want(0, "cp", "again:", "results")
		if data, err := os.ReadFile(filepath.Join(u.dir, "results", "model")); err != nil || string(data) != "weights\n" {
			t.Errorf("the results: %q, %v", data, err)
		}
		u.want(0, "cp", "again:model", "model") // the same file while the run lives and after its end
		if data, err := os.ReadFile(filepath.Join(u.dir, "model")); err != nil || string(data) != "weights\n" {
			t.Errorf("a file of the results: %q, %v", data, err)
		}
		contains(t, "status", u.want(0, "status", "again").out, "/output\n")
		contains(t, "no attempt", u.want(65, "logs", "again", "--attempt", "3").err, "again", "no attempt 3")
	}
	each()
	u.want(0, "down", "again")
	if code := s.code(); code != runstate.CodeInterrupted {
		t.Errorf("exit code %d, %q", code, s)
	}
	contains(t, "the restart", s.String(), "again: attempt 1 failed: the driver exited with code 3; attempt 2 begins (restart 1 of 1, job.restarts.driver)\n")
	contains(t, "the receipt", s.String(), "\n  output  /")
	if text := u.read("fetched/model"); text != "weights\n" {
		t.Errorf("what was fetched at the end: %q", text)
	}
	flat := strings.Join(strings.Fields(u.read("report.xml")), " ")
	contains(t, "the report", flat, `<testsuite name="rayctl.again" tests="2" failures="0" errors="1" skipped="1"`)
	for n, want := range []string{
		`name="attempt 1" time="[0-9.]+"> <properties></properties> <skipped message="driver-failed: [^"]*"></skipped> <system-out>try 1&#xA;</system-out>`,
		`name="attempt 2" time="[0-9.]+"> <properties></properties> <error type="down" message="[^"]+"></error> <system-out>try 2&#xA;</system-out>`,
	} {
		if !regexp.MustCompile(want).MatchString(flat) {
			t.Errorf("no case of attempt %d as %s in %s", n+1, want, flat)
		}
	}
	for _, name := range []string{"results", "model"} {
		if err := os.RemoveAll(filepath.Join(u.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	each()
}
