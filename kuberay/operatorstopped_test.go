package kuberay_test

import (
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestOperatorStopped: without KubeRay's operator a running cluster goes on and ends; the reason of a new one is that no operator makes its pods.
func TestOperatorStopped(t *testing.T) {
	b := newBed(t)
	runs := b.begin(t, b.l, named("runs", waitingDriver))
	runs.printed(t, "begun\n")
	b.StopOperator(t)
	silent := b.begin(t, b.l, named("silent", "echo never"))
	silent.until(t, "word of the silent operator", func(st launcher.Status) bool { return st.Reason.Code == "OperatorSilent" })
	silent.actions <- launcher.Stop
	silent.wantEnd(t, "interrupted", runstate.CodeInterrupted, "")
	b.release(t, runs.id)
	runs.wantEnd(t, "succeeded", 0, "begun\ndone\n")
}

// TestVolcanoStopped: the reason of a gang that is not admitted names Volcano, and the gang starts when Volcano is back.
func TestVolcanoStopped(t *testing.T) {
	b := newBed(t)
	b.StopVolcano(t)
	waits := b.begin(t, b.l, named("waits", "echo at last"))
	waits.until(t, "word of Volcano's silence", func(st launcher.Status) bool { return st.Reason.Code == "PodGroupIgnored" })
	b.StartVolcano(t)
	waits.wantEnd(t, "succeeded", 0, "at last\n")
}
