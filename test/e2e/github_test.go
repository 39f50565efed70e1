package e2e

import (
	"os/exec"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/test/pace"
)

// TestGitHub: a run that succeeds, with hostile inputs, and one that is refused.
func TestGitHub(t *testing.T) {
	pace.Parallel(t)
	g := newGitHub(t, "train_it", map[string]string{"command": `echo "it's $((40+2)) ` + "`echo ok`" + `"`, "flags": "--label=a=b\n\n--env=WORDS=$(id) \"x y\"\n"})
	if !g.all(func(c *exec.Cmd) bool {
		out, err := c.Output()
		if err != nil || string(out) != "it's 42 ok\n" {
			t.Errorf("%v: %q", err, out)
		}
		return err == nil
	}) {
		t.Fatal("a step failed")
	}
	g.nothingRuns()
	contains(t, "the report", g.read(reportFile), `failures="0" errors="0"`, "it&#39;s 42 ok")
	if rc := decode[launcher.Receipt](t, g.read(receiptFile)); rc.Exit.Code != 0 {
		t.Errorf("%+v", rc.Exit)
	}

	refused := newGitHub(t, "refused", map[string]string{"command": "true", "flags": "--set=ray.python=/nosuch/python"})
	if refused.all(func(c *exec.Cmd) bool { return c.Run() == nil }) {
		t.Error("a refused launch has succeeded")
	}
	refused.nothingRuns()
	contains(t, "the report", refused.read(reportFile), `errors="1"`, "/nosuch/python")
}
