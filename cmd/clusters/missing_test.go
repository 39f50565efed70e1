package clusters

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/cmd/app/served"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestMissingOutput: status names the gaps of the output, of a living run and of a record, as the receipt does, and has them in its document.
func TestMissingOutput(t *testing.T) {
	gaps := [][2]int64{{11406, 11406}, {20000, -1}}
	const first, second = "Output may be missing at byte 11406, where the driver's log was truncated", "Output after byte 20000 was not saved"
	apptest.Run(t, apptest.Tree(NewStatus), func() launcher.Launcher { return (&apptest.Launcher{Ray: &apptest.Ray{}, Missing: gaps}).With("old") }, []apptest.Line{
		{Args: "status old", Out: first},
		{Args: "status old", Out: second},
		{Args: "status old -o json", JSON: true, Out: "11406"},
		{Args: "status old -o yaml", Out: "missing:"},
	})
	a, out, _ := apptest.New()
	s := launcher.Status{Name: "x", Phase: runstate.Ready, Job: &runstate.Job{State: runstate.JobRunning, Missing: gaps}}
	if err := printStatus(a, out, served.Status{Status: s}, nil); err != nil || !strings.Contains(out.String(), first) || !strings.Contains(out.String(), second) {
		t.Errorf("%v, %s", err, out)
	}
	out.Reset()
	s.Job.Missing = nil
	if err := printStatus(a, out, served.Status{Status: s}, nil); err != nil || strings.Contains(out.String(), "utput") {
		t.Errorf("without a gap: %v, %s", err, out)
	}
}
