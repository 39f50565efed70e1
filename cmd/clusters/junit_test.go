package clusters

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestJUnit: one case for each attempt, of which the last decides.
func TestJUnit(t *testing.T) {
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	attempt := func(n int, cause, message string) runstate.Attempt {
		start, end := begun.Add(time.Duration(n)*time.Minute), begun.Add(time.Duration(n)*time.Minute+1500*time.Millisecond)
		return runstate.Attempt{Attempt: n, Start: &start, End: &end, Cause: cause, Message: message}
	}
	receipt := func(e runstate.Exit, attempts ...runstate.Attempt) *launcher.Receipt {
		return &launcher.Receipt{Name: "a", Command: "python train.py", Created: begun, Exit: e, Attempts: attempts, Durations: launcher.Durations{Total: 90}}
	}
	const head = `<testsuite name="rayctl.a" tests="`
	for name, c := range map[string]struct {
		rc     *launcher.Receipt
		output string
		want   []string
	}{
		"succeeded": {receipt(runstate.Exit{Cause: runstate.CauseSucceeded, Origin: runstate.OriginDriver}, attempt(1, "succeeded", "")), "done\n", []string{
			head + `1" failures="0" errors="0" skipped="0" time="90.000" timestamp="2026-01-02T03:04:05">`,
			`<testcase classname="rayctl" name="attempt 1 of python train.py" time="1.500">`, "<system-out>done&#xA;</system-out>",
		}},
		"figures": {receipt(runstate.Exit{Cause: runstate.CauseSucceeded, Origin: runstate.OriginDriver}, runstate.Attempt{Attempt: 1, Figures: map[string]float64{"steps_lost": 1, "loss": 0.25}}), "", []string{
			`<testcase classname="rayctl" name="attempt 1 of python train.py" time="0.000"><properties><property name="loss" value="0.25"></property><property name="steps_lost" value="1"></property></properties></testcase>`,
		}},
		"preempted first": {receipt(runstate.Exit{Cause: runstate.CauseSucceeded, Origin: runstate.OriginDriver}, attempt(1, "preempted", "by job 7"), attempt(2, "succeeded", "")), "", []string{
			head + `2" failures="0" errors="0" skipped="1"`, `<skipped message="preempted: by job 7"></skipped>`, `name="attempt 2 of python train.py"`,
		}},
		"driver failed": {receipt(runstate.Exit{Cause: runstate.CauseDriverFailed, Origin: runstate.OriginDriver, Code: 3}, attempt(1, "driver-failed", "")), "", []string{
			head + `1" failures="1" errors="0"`, `<failure type="driver-failed" message="failed: the driver exited with code 3"></failure>`,
		}},
		"no attempt": {receipt(runstate.Exit{Cause: runstate.CauseQueue, Origin: runstate.OriginRayctl, Code: 75, Message: "no node"}), "", []string{
			head + `1" failures="0" errors="1"`, `<error type="` + runstate.CauseQueue + `" message="`,
		}},
		"hostile": {receipt(runstate.Exit{Cause: runstate.CauseDriverFailed, Origin: runstate.OriginDriver, Code: 1, Message: "\"/><x>\x00\x1b[2J&"}, attempt(1, "", "")), "]]></system-out>\x01<x a='&'>\xff\n", []string{
			`message="failed: &#34;/&gt;&lt;x&gt;\x00\x1b[2J&amp;"`, "<system-out>]]&gt;&lt;/system-out&gt;", `&lt;x a=&#39;&amp;&#39;&gt;`,
		}},
	} {
		text, err := xml.Marshal(newJUnit(c.rc, func(int) string { return c.output }))
		if err != nil {
			t.Fatal(name, err)
		}
		var back junitSuite
		if err := xml.Unmarshal(text, &back); err != nil || len(back.Cases) != back.Tests {
			t.Errorf("%s: %v, %+v", name, err, back)
		}
		for _, want := range c.want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: no %s in\n%s", name, want, text)
			}
		}
	}
}
