package cmd

import (
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// evilStatus has characters with an effect on terminals: colours, titles, the clipboard, moving the cursor, C1, other directions.
const evilStatus = "a\x1b[31mb\x1b]0;title\x07c\rd\x08e\u009b2Jf\u202eg\x7fh\xffi\u2028j"

// TestForeignText: names and messages of a cluster never reach the terminal as escape sequences.
func TestForeignText(t *testing.T) {
	a, out, _ := testApp()
	s := launcher.Status{Name: evilStatus, Labels: map[string]string{"l": evilStatus}, Phase: runstate.Ready, Nodes: []runstate.Node{{Name: evilStatus, Message: evilStatus}},
		Reason: runstate.Reason{Message: evilStatus}, Job: &runstate.Job{Message: evilStatus}, Exit: &runstate.Exit{Message: evilStatus}, Timeline: []runstate.Event{{Message: evilStatus}}}
	for _, format := range []string{formatText, formatWide, formatName, formatJSON} {
		if err := a.printClusters(&lsOptions{output: output{format: format}}, []launcher.Status{s}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.printStatus(out, s); err != nil {
		t.Fatal(err)
	}
	if err := a.printChange(&statusOptions{}, s, ""); err != nil {
		t.Fatal(err)
	}
	a.printChecks([]launcher.Check{{Name: "x", Detail: evilStatus, Hint: evilStatus}})
	if text := out.String(); text == "" || text != clean(text) {
		t.Errorf("stdout: %q", text)
	}
}
