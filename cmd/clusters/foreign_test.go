package clusters

import (
	"cmp"
	"testing"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/cmd/app/served"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// evilStatus has characters with an effect on terminals: colours, titles, the clipboard, moving the cursor, C1, other directions.
const evilStatus = "a\x1b[31mb\x1b]0;title\x07c\rd\x08e\u009b2Jf\u202eg\x7fh\xffi\u2028j"

// TestForeignText: names and messages of a cluster never reach the terminal as escape sequences.
func TestForeignText(t *testing.T) {
	a, out, _ := apptest.New()
	s := launcher.Status{Name: evilStatus, Labels: map[string]string{"l": evilStatus}, Phase: runstate.Ready, Nodes: []runstate.Node{{Name: evilStatus, Message: evilStatus}},
		Reason: runstate.Reason{Message: evilStatus}, Job: &runstate.Job{Message: evilStatus}, Exit: &runstate.Exit{Message: evilStatus}, Timeline: []runstate.Event{{Message: evilStatus}}, Uncommitted: true,
		Submissions: []runstate.Submission{{SubmissionID: evilStatus, State: runstate.JobPending, Entrypoint: evilStatus, WaitsFor: evilStatus}}}
	for _, format := range []string{"", app.FormatWide, app.FormatName, app.FormatJSON} {
		if err := printClusters(a, &lsOptions{output: app.Output{Format: format}}, []launcher.Status{s}); err != nil {
			t.Fatal(err)
		}
	}
	if err := printStatus(a, out, served.Status{Status: s}, &launcher.Receipt{}); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"", app.FormatJSON, app.FormatYAML} {
		if err := printChange(a, &statusOptions{output: app.Output{Format: format}}, s, ""); err != nil {
			t.Fatal(err)
		}
		if err := answerUp(a, &upOptions{output: app.Output{Format: cmp.Or(format, app.FormatName)}}, "", s); err != nil {
			t.Fatal(err)
		}
	}
	if err := (upPlan{Name: "dev", Action: "change", Changes: []spec.Difference{{Path: evilStatus, From: evilStatus, To: evilStatus}}}).print(a, nil); err != nil {
		t.Fatal(err)
	}
	printChecks(a, []launcher.Check{{Name: evilStatus, Detail: evilStatus, Hint: evilStatus}})
	if text := out.String(); text == "" || text != terminal.Clean(text) {
		t.Errorf("stdout: %q", text)
	}
}
