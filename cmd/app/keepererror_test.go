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
