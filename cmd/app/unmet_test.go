package app_test

import (
	"testing"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestUnmet: what waits for resources that no node can have is noted once while the driver runs, also if it goes and comes, and again if it is something else. It may be anybody's text.
func TestUnmet(t *testing.T) {
	a, _, stderr := apptest.New()
	w := app.NewWatcher(a.UI)
	see := func(message string) {
		s := launcher.Status{Name: "x", Phase: runstate.Ready, Job: &runstate.Job{State: runstate.JobRunning}}
		if message != "" {
			s.Reason = runstate.Reason{Code: runstate.ReasonUnmet, Message: message, Hint: "ask for less"}
		}
		w.See(s)
	}
	for _, message := range []string{"", "tasks wait", "tasks wait", "", "tasks wait", "a group\n\x1b[31mwaits", "a group\n\x1b[31mwaits"} {
		see(message)
	}
	if got, want := stderr.String(), "x: tasks wait: ask for less\nx: a group \\x1b[31mwaits: ask for less\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
