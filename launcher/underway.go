package launcher

import (
	"strings"

	"github.com/rayctl/rayctl/launcher/keeper"
)

// Signalled begins a keeper's sentence when it was told to end by a signal, which does not say why; as in templates/keeper_exit.py.
const Signalled = "the keeper got SIG"

// Conclude is the exit of a cluster whose keeper was lost: that of the end which the keeper was carrying out then (phase Draining), with the driver's own
// code if it had one. Without such an end it is the cause given.
func Conclude(st *keeper.State, cause, message string) *keeper.Exit {
	e := &keeper.Exit{Origin: keeper.OriginRayctl, Cause: cause, Message: message}
	if begun := st.Reason; st.Phase == keeper.PhaseDraining && !strings.HasPrefix(begun.Message, Signalled) {
		_, ours := ExitCodeFor(begun.Code)
		switch {
		case ours && begun.Code != cause:
			e.Cause, e.Message = begun.Code, begun.Message+"; meanwhile "+message
		case ours:
		case st.Job != nil && st.Job.ExitCode != nil:
			return &keeper.Exit{Origin: keeper.OriginDriver, Cause: begun.Code, Code: *st.Job.ExitCode, Signal: st.Job.Signal, Message: begun.Message}
		}
	}
	e.Code, _ = ExitCodeFor(e.Cause)
	e.Retryable = Retryable(e.Cause)
	return e
}
