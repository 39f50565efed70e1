package e2e

import (
	"fmt"
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

// TestCtrlCTwice stops at once, also a command that runs on every node and does not end. Each rank's number has a colour on the terminal, and `logs` has each rank's bytes.
func TestCtrlCTwice(t *testing.T) {
	u := newUser(t)
	s := u.start(true, "run", "--name", "twice", "--grace", "10m", "--each-node=2", "--set", "head.cpus=2", "--", "python", "-c", strings.Replace(patient, "sys.exit(0)", "pass", 1))
	for rank, color := range []string{"36", "33"} {
		s.until(fmt.Sprintf("\x1b[%sm[rank %d]\x1b[0m ready\r\n", color, rank), 1)
	}
	s.key(ctrlC)
	s.until("[s/d/c]", 1)
	s.key(ctrlC)
	if code := s.code(); code != runstate.CodeInterrupted {
		t.Errorf("exit code %d, %q", code, s)
	}
	contains(t, "a rank that is not there", u.want(0, "logs", "twice", "--rank", "2").err, "Rank 2 has written nothing")
	u.want(0, "logs", "twice", "--attempt", "1", "--rank-files", "ranks")
	for rank := range 2 {
		text, one := u.read(fmt.Sprintf("ranks/rank-%d.log", rank)), u.want(0, "logs", "twice", "--rank", strconv.Itoa(rank)).out
		if text != one || text != "ready\n" && text != "ready\nsaved\n" {
			t.Errorf("the file of rank %d: %q, --rank: %q", rank, text, one)
		}
	}
}
