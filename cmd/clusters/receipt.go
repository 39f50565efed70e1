package clusters

import (
	"bytes"
	"errors"
	"time"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/dashboardclient/pack"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// receiptText is a receipt as `run` prints it.
func receiptText(rc *launcher.Receipt) string {
	var b bytes.Buffer
	if err := rc.WriteText(&b); err != nil {
		return err.Error()
	}
	return b.String()
}

// rememberRefused returns a function that saves and returns the receipt of a failed launch, because no substrate has a record of it. A name conflict is
// not a launch: it has none.
func rememberRefused(a *app.App, s *spec.ClusterSpec) func(error) *launcher.Receipt {
	began := time.Now().UTC()
	return func(err error) *launcher.Receipt {
		if errors.Is(err, launcher.ErrConflict) || errors.Is(err, launcher.ErrEnded) {
			return nil
		}
		rc := refusedReceipt(s, began, err)
		a.RememberEnd(rc)
		return rc
	}
}

// refusedReceipt is the receipt of a launch that failed before anything was begun. s has only a name where the cluster file could not be read.
func refusedReceipt(s *spec.ClusterSpec, began time.Time, err error) *launcher.Receipt {
	cause, code := runstate.CauseStartFailed, launcher.ExitCode(err)
	var names *pack.NamesError
	switch {
	case errors.As(err, &names):
		cause = runstate.CausePackageFailed
	case code == runstate.CodeInterrupted:
		cause = runstate.CauseInterrupted
	case code == runstate.CodeQueueTimeout:
		cause = runstate.CauseQueue
	}
	ended := time.Now().UTC()
	return &launcher.Receipt{
		Name: s.Name, Launcher: s.Launcher, SpecHash: spec.Hash(s), Created: began, Ended: ended, Timeline: []runstate.Event{},
		Exit:      runstate.Exit{Origin: runstate.OriginRayctl, Cause: cause, Code: code, Message: app.Sentence(err)},
		Durations: launcher.Durations{Total: ended.Sub(began).Seconds()},
	}
}
