package slurm

import (
	"testing"

	"github.com/rayctl/rayctl/slurm/controller"
)

// TestKilledKeeper: squeue's text has the signal behind the reason (24.11), and no exit code.
func TestKilledKeeper(t *testing.T) {
	for reason, want := range map[string]string{"RaisedSignal:9(Killed)": "the keeper was killed", "RaisedSignal": "the keeper was killed", "NonZeroExitCode": scriptFailed} {
		if v := verdictByState(controller.Job{State: controller.StateFailed, Reason: reason}); v.Message != want {
			t.Errorf("%s: %q, want %q", reason, v.Message, want)
		}
	}
}
