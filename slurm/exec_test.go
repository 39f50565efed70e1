//go:build linux

package slurm_test

import (
	"context"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
)

// execs: on a terminal, keys are the command's, Ctrl-C too; without one the end of its context asks the command to end.
func (b *bed) execs(t *testing.T, id launcher.ID) {
	t.Run("terminal", func(t *testing.T) { conformance.OnTerminal(t, b.launcher(), id) })
	t.Run("terminal by ssh", func(t *testing.T) { conformance.OnTerminal(t, b.ssh(t), id) })
	t.Run("asked to end", func(t *testing.T) { askedToEnd(t, b.launcher(), id) })
}

func askedToEnd(t *testing.T, l launcher.Execer, id launcher.ID) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go func() {
		defer in.Close()
		script := `trap "echo asked; exit 0" INT; echo ready; while :; do sleep 0.1; done`
		_, err := l.Exec(ctx, id, launcher.ExecRequest{Command: []string{"sh", "-c", script}, Stdout: in, Stderr: in})
		t.Log(err)
	}()
	conformance.ReadUntil(t, out, "ready")
	cancel(launcher.Interruption{Signal: syscall.SIGTERM})
	conformance.ReadUntil(t, out, "asked")
	if _, err := io.Copy(io.Discard, out); err != nil { // its end
		t.Error(err)
	}
}
