package app

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestTunnelHint: what sshd prints about the session is quoted, and only that of a session counts.
func TestTunnelHint(t *testing.T) {
	for connection, want := range map[string]string{
		"":                             "",
		"10.0.0.1 5000 10.0.0.2":       "",
		"10.0.0.1 5000 x;reboot 22":    "",
		"10.0.0.1 5000 10.0.0.2 22":    "`ssh -N -L 8265:127.0.0.1:8265 'a b@10.0.0.2'`",
		"10.0.0.1 5000 fe80::1%eth0 2": "",
		"::1 5000 ::1 2222":            "`ssh -N -L 8265:127.0.0.1:8265 -p 2222 'a b@::1'`",
	} {
		a := &App{Getenv: func(name string) string { return map[string]string{"SSH_CONNECTION": connection, "USER": "a b"}[name] }}
		if got := a.TunnelHint(8265); got != want {
			t.Errorf("%q gives %s, not %s", connection, got, want)
		}
	}
}

// TestKeeperError: where a keeper does not answer, or not yet, the error says to try again; an error that the keeper itself answers is not changed.
func TestKeeperError(t *testing.T) {
	busy := &keeper.Error{Status: http.StatusServiceUnavailable, Message: "the keeper is busy"}
	refused := &keeper.Error{Status: http.StatusConflict, Message: "no"}
	for _, c := range []struct {
		err  error
		code int
		text string
	}{
		{context.DeadlineExceeded, runstate.CodeUnreachable, "the keeper of dev did not answer: context deadline exceeded: `rayctl status dev`"},
		{busy, runstate.CodeUnreachable, "dev: the keeper is busy: try again"},
		{refused, runstate.CodeInternal, "the keeper refuses: no"},
		{context.Canceled, runstate.CodeInterrupted, "canceled"},
	} {
		err := keeperError("dev", c.err)
		if ExitCode(err) != c.code || !strings.Contains(err.Error(), c.text) || !errors.Is(err, c.err) {
			t.Errorf("%v: exit code %d", err, ExitCode(err))
		}
	}
	if keeperError("dev", nil) != nil {
		t.Error("an error of nothing")
	}
}
