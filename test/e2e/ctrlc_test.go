package e2e

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestCtrlCOnTerminal answers the question in each way, on one run. While it is asked the driver's output goes on above it.
func TestCtrlCOnTerminal(t *testing.T) {
	u := newUser(t)
	say := strconv.Quote(filepath.Join(u.dir, "say"))
	u.write("wd/main.py", "import os\n"+patient+"    if os.path.exists("+say+"):\n        os.remove("+say+")\n        print('goes on', flush=True)\n")
	s := u.start(true, "run", "--name", "asked", "--working-dir", "wd", "--", "python", "main.py")
	s.until("ready", 1)
	s.key(ctrlC)
	s.until("[s/d/c]", 1)
	u.write("say", "")
	s.until("goes on\r\n", 1)
	s.until("[s/d/c]", 2) // below it
	s.key("c\n")
	s.until("The run continues", 1)
	s.key(ctrlC)
	s.until("\r\n^C\x1b[1mStop", 2) // the first one may have been written more than once
	s.key("d\n")
	if code := s.code(); code != 0 || !strings.Contains(s.String(), "keeps running") {
		t.Fatalf("detach: exit code %d, %q", code, s)
	}

	watching := u.start(true, "logs", "-f", "asked") // Ctrl-C stops only the watching
	watching.until("ready", 1)
	watching.key(ctrlC)
	if code := watching.code(); code != runstate.CodeInterrupted || !strings.Contains(watching.String(), "keeps running") {
		t.Fatalf("logs -f: exit code %d, %q", code, watching)
	}

	again := u.start(true, "run", "--name", "asked", "--working-dir", "wd", "--", "python", "main.py") // the same run
	again.until("ready", 1)
	again.key(ctrlC)
	again.until("[s/d/c]", 1)
	again.key("s\n")
	if code := again.code(); code != runstate.CodeInterrupted {
		t.Errorf("stop: exit code %d, %q", code, again)
	}
	contains(t, "the screen", again.String(), "saved", "exit code 130")
	for _, screen := range []*screen{s, watching, again} {
		apptest.Fits(t, screen.String(), columns)
	}
	if out := u.want(0, "ls", "-o", "name").out; strings.Contains(out, "asked") {
		t.Errorf("the run is still there: %s", out)
	}
}

// TestCtrlCTwice stops at once.
func TestCtrlCTwice(t *testing.T) {
	u := newUser(t)
	s := u.start(true, "run", "--name", "twice", "--grace", "10m", "--", "python", "-c", strings.Replace(patient, "sys.exit(0)", "pass", 1))
	s.until("ready", 1)
	s.key(ctrlC)
	s.until("[s/d/c]", 1)
	s.key(ctrlC)
	if code := s.code(); code != runstate.CodeInterrupted {
		t.Errorf("exit code %d, %q", code, s)
	}
}
