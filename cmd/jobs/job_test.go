package jobs

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/dashboardclient"
)

// TestJobMessage: the output that Ray puts into a job's message keeps its lines, and cannot write on the terminal.
func TestJobMessage(t *testing.T) {
	var out strings.Builder
	job := &dashboardclient.Job{SubmissionID: "j", Status: dashboardclient.JobFailed, Message: "it failed:\nTraceback:\n  File \"a.py\"\nValueError: \x1b[31mx\n"}
	if err := printJob(&out, "1 s", job); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"it failed:\n", "\n  Traceback:\n    File \"a.py\"\n  ValueError: \\x1b[31mx\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q has no %q", out.String(), want)
		}
	}
}
