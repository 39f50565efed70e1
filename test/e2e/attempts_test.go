package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestEarlierAttempts: `rayctl logs` shows the output of each attempt while the run lives and after its end, and `rayctl cp` copies the output directory of each. Each
// attempt is a case of the report.
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
		`classname="rayctl" name="attempt 1 of [^"]+" time="[0-9.]+"> <properties></properties> <skipped message="driver-failed: [^"]*"></skipped> <system-out>try 1&#xA;</system-out>`,
		`classname="rayctl" name="attempt 2 of [^"]+" time="[0-9.]+"> <properties></properties> <error type="down" message="[^"]+"></error> <system-out>try 2&#xA;</system-out>`,
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
