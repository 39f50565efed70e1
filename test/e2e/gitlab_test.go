package e2e

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/pace"
)

// TestGitLab: a run that fails.
func TestGitLab(t *testing.T) {
	pace.Parallel(t)
	g := newGitLab(t, "4711", `RUN_COMMAND=echo "$WORDS"; exit 3`, "RUN_FLAGS=--env=WORDS=a  b*\n--label=a=b\n")
	job := g.command(g.before, g.script)
	if out, _ := job.Output(); string(out) != "a  b*\n" || job.ProcessState.ExitCode() != 3 {
		t.Errorf("exit code %d: %q", job.ProcessState.ExitCode(), out)
	}
	if out, err := g.command(g.after).Output(); err != nil || !strings.Contains(string(out), "ci-4711") {
		t.Errorf("afterwards: %v: %s", err, out)
	}
	contains(t, "the report", g.read(reportFile), `failures="1"`)
	if rc := decode[launcher.Receipt](t, g.read(receiptFile)); rc.Exit.Cause != runstate.CauseDriverFailed || rc.Exit.Code != 3 {
		t.Errorf("%+v", rc.Exit)
	}
}
