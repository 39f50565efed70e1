package e2e

import (
	"bufio"
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestReaderGone: when the reader of stdout ends, the run continues, and the command exits with an error.
func TestReaderGone(t *testing.T) {
	u := newUser(t)
	u.write("wd/main.py", strings.Replace(patient, "while True:", "while True:\n    print('step', flush=True)", 1))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := u.command(ctx, "run", "--name", "read", "--working-dir", "wd", "--", "python", "main.py")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "step"; {
	}
	out.Close()
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != runstate.CodeOutputLost {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
	contains(t, "stderr", stderr.String(), "The reader of the output (stdout) has ended. Detached; read keeps running")
	u.want(0, "down", "read")
}
