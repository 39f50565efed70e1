package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/launcher"
)

// hostile are arguments that a shell, YAML or a URL would love to change.
var hostile = []string{"", "a  b", "new\nline", "$(id)", "`id`", "it's", `"q"`, `b\s`, "*", "~", "#x", "-n", "ünï😀", "%20&?", "{{.}}", "a: b"}

// printArguments prints its arguments, NUL-separated, and exits with the code in CODE.
const printArguments = `import os, sys
sys.stdout.write("\0".join(sys.argv[1:]))
sys.exit(int(os.environ.get("CODE", "0")))
`

// TestRun takes one job through its life, with everything that may be asked about it afterwards.
func TestRun(t *testing.T) {
	u := newUser(t)
	u.write("w d/$(x) é/main.py", printArguments)
	receipt := filepath.Join(u.dir, "receipt.json")
	args := append([]string{"run", "--name", "once", "--working-dir", "w d/$(x) é", "--env", "CODE=3", "--receipt", receipt, "--", "python", "main.py"}, hostile...)
	r := u.want(3, args...)
	if d := cmp.Diff(strings.Join(hostile, "\x00"), r.out); d != "" {
		t.Errorf("the driver's output: %s", d)
	}
	first, _, _ := strings.Cut(r.err, "\n")
	contains(t, "the first line", first, "local", "because", "once")
	contains(t, "stderr", r.err, "the driver's exit code 3", "node-seconds")
	data, err := os.ReadFile(receipt)
	if err != nil {
		t.Fatal(err)
	}
	rc := decode[launcher.Receipt](t, string(data))
	if rc.Exit.Code != 3 || rc.Exit.Origin != "driver" || rc.Durations.Total <= 0 || len(rc.Timeline) == 0 {
		t.Errorf("the receipt: %s", data)
	}

	t.Run("again", func(t *testing.T) { // the record is shown, the driver does not run again
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
		if s.Phase != launcher.Gone || s.Exit == nil || s.Exit.Code != 3 {
			t.Errorf("status: %+v", s)
		}
		contains(t, "history", u.want(0, "history").out, "once", "driver-failed", "rayctl logs once")
		contains(t, "ls -a", u.want(0, "ls", "-a").out, "once")
		if out := u.want(0, "ls", "-o", "name").out; strings.Contains(out, "once") {
			t.Errorf("ls shows what has ended: %s", out)
		}
		u.want(65, "submit", "once", "--", "true")
		u.want(0, "down", "once")
	})
}

// TestRunShapesItsReceipt runs without notes: stdout has the output and then the receipt, stderr nothing.
func TestRunShapesItsReceipt(t *testing.T) {
	u := newUser(t)
	u.write("rayctl.yaml", "name: shaped\njob: {entrypoint: 'echo hello; kill -9 $$'}\n")
	r := u.want(137, "run", "-q", "-o", "json")
	output, receipt, _ := strings.Cut(r.out, "\n")
	rc := decode[launcher.Receipt](t, receipt)
	if output != "hello" || r.err != "" || rc.Exit.Code != 137 || rc.Exit.Origin != "driver" || !strings.HasPrefix(rc.Name, "shaped-") {
		t.Errorf("%+v", r)
	}
}
