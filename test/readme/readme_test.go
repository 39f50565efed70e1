package readme

import (
	"strings"
	"testing"
)

// TestSessions: README.md has one session on each system, with a cluster file of at most eight lines.
func TestSessions(t *testing.T) {
	sessions, err := Sessions("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, title := range []string{"On this machine", "On Slurm", "On Kubernetes"} {
		session, found := sessions[title]
		if !found || len(session.Steps) == 0 {
			t.Errorf("README.md has no session %q", title)
		}
		if n := 1 + strings.Count(session.File, "\n"); n > 8 {
			t.Errorf("%s: %s has %d lines", title, session.Name, n)
		}
		for _, step := range session.Steps {
			if strings.TrimSpace(step.Shown) == "" {
				t.Errorf("%s: `%s` has no output", title, step.Command)
			}
		}
	}
	if len(sessions) != 3 {
		t.Errorf("README.md has %d sessions, and each needs a test that repeats it", len(sessions))
	}
}

// TestDiffers: what a step prints otherwise is found; what differs from run to run is not.
func TestDiffers(t *testing.T) {
	const shown = `Starting run demo-zaiu7 on this machine (default launcher)
Starting: 1 of 2 nodes are alive
Ready: submitting the job
2 nodes
  time    4.6 s (queued 0.1 s, driver 1.0 s, ending 0.2 s)
  log     /home/ann/.local/state/rayctl/clusters/demo-zaiu7/driver.log (183 bytes)
NAME         LAUNCHER   ENDED                 TOOK    NODE-SECONDS   EXIT   CAUSE       COMMAND
demo-zaiu7   local      2026-11-23 18:16:52   4.6 s   9              0      succeeded   python train.py
9 node-seconds in all
`
	step := Step{"rayctl run", shown}
	for change, differs := range map[[2]string]bool{
		{"", ""}:           false,
		{"zaiu7", "b2c3d"}: false,
		{"Starting: 1 of 2 nodes are alive\n", "Starting: Ray is starting\nQueued: in the queue\n"}: false,
		{"4.6 s", "1m 4.0 s"}:                              false,
		{"4.6 s (queued 0.1 s", "14 s (queued 2.1 s"}:      false,
		{"(queued 0.1 s", "(starting 1 s"}:                 false,
		{", driver 1.0 s, ending 0.2 s)", ")"}:             true,
		{"/home/ann/.local/state", "/tmp/x/state"}:         false,
		{"18:16:52   4.6 s   9 ", "09:06:12   14 s   99 "}: false,
		{"9 node-seconds", "17 node-seconds"}:              false,
		{"2 nodes\n", "3 nodes\n"}:                         true,
		{"default launcher", "the only launcher"}:          true,
		{"Ready: submitting the job\n", ""}:                true,
		{"0      succeeded", "1      succeeded"}:           true,
		{"  log ", "  note    new\n  log "}:                true,
		{"NODE-SECONDS ", "COST "}:                         true,
	} {
		output := strings.ReplaceAll(shown, change[0], change[1])
		if change[0] == "" {
			output = shown
		}
		if got := step.Differs(output) != ""; got != differs {
			t.Errorf("%q: differs %t, want %t\n%q\n%q", change, got, differs, lines(shown), lines(output))
		}
	}
}
