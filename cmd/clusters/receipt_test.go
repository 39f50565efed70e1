package clusters

import (
	"errors"
	"testing"
	"time"

	"github.com/rayctl/rayctl/dashboardclient/pack"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestRefusedCause: the receipt of a launch that failed before anything was begun names the cause, as that of a run does.
func TestRefusedCause(t *testing.T) {
	for want, err := range map[string]error{
		runstate.CausePackageFailed: launcher.Fail(runstate.CodeStartFailed, &pack.NamesError{Names: []string{`a\b`}}, "", "Ray cannot unpack"),
		runstate.CauseStartFailed:   launcher.Fail(runstate.CodeStartFailed, errors.New("x"), "", "no"),
		runstate.CauseQueue:         launcher.Fail(runstate.CodeQueueTimeout, nil, "", "too late"),
	} {
		if rc := refusedReceipt(&spec.ClusterSpec{Name: "a"}, time.Now(), err); rc.Exit.Cause != want || rc.Exit.Code != launcher.ExitCode(err) {
			t.Errorf("%v: %+v, want %s", err, rc.Exit, want)
		}
	}
}
