package clusters

import (
	"context"
	"encoding/xml"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sharedfile"
	"github.com/rayctl/rayctl/launcher/tail"
)

// junitOutput is how many bytes of an attempt's output a report has: its end, where the traceback stands.
const junitOutput = 64 << 10

// junitSuite is a run as the JUnit XML that Jenkins, GitLab ("Unit test reports") and GitHub's report actions read: one case for each attempt.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"` // seconds
	Begun    string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class string `xml:"classname,attr"`
	Name  string `xml:"name,attr"`
	Time  string `xml:"time,attr"` // seconds
	// Properties are the figures that the attempt's driver gave.
	Properties []junitProperty `xml:"properties>property"`
	Failure    *junitReason    `xml:"failure"` // the driver failed
	Error      *junitReason    `xml:"error"`   // something else ended it
	Skipped    *junitReason    `xml:"skipped"` // another attempt followed
	Output     string          `xml:"system-out,omitempty"`
}

// caseName is the name of an attempt of the user's command.
func caseName(attempt int, command string) string {
	name := fmt.Sprintf("attempt %d", attempt)
	if command != "" {
		name += " of " + terminal.Shorten(command, false)
	}
	return name
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitReason struct {
	Type    string `xml:"type,attr,omitempty"`
	Message string `xml:"message,attr"`
}

// newJUnit is the report of a run that has ended. outputOf is the end of an attempt's output. Only the last attempt decides: one that was followed
// by another is skipped, as CI systems would call a run failed that succeeded in the end.
//
// CI systems find a test's earlier results by class and name: both are the same for each run of a command, whatever the run is called.
func newJUnit(rc *launcher.Receipt, outputOf func(attempt int) string) *junitSuite {
	s := &junitSuite{Name: "rayctl." + rc.Name, Time: junitSeconds(rc.Durations.Total), Begun: rc.Created.UTC().Format("2006-01-02T15:04:05")}
	attempts := rc.Attempts
	if len(attempts) == 0 { // it ended before the first
		attempts = []runstate.Attempt{{Attempt: 1}}
	}
	for i, a := range attempts {
		c := junitCase{Class: "rayctl", Name: caseName(a.Attempt, rc.Command), Time: junitSeconds(lasted(a)), Output: outputOf(a.Attempt)}
		for _, name := range slices.Sorted(maps.Keys(a.Figures)) {
			c.Properties = append(c.Properties, junitProperty{terminal.Clean(name), strconv.FormatFloat(a.Figures[name], 'g', -1, 64)})
		}
		if i == len(attempts)-1 {
			c.judge(rc.Exit)
		} else {
			c.Skipped = &junitReason{Message: terminal.Clean(a.Cause + ": " + a.Message)}
		}
		s.count(c)
	}
	return s
}

func (c *junitCase) judge(e runstate.Exit) {
	reason := &junitReason{Type: e.Cause, Message: terminal.Clean(e.Sentence())}
	switch {
	case e.Code == 0:
	case e.Origin != runstate.OriginRayctl:
		c.Failure = reason
	default:
		c.Error = reason
	}
}

func (s *junitSuite) count(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}

// lasted is how long an attempt's driver ran, in seconds.
func lasted(a runstate.Attempt) float64 {
	if a.Start == nil || a.End == nil {
		return 0
	}
	return max(0, a.End.Sub(*a.Start).Seconds())
}

func junitSeconds(s float64) string { return fmt.Sprintf("%.3f", s) }

// writeJUnit writes the report, atomically. r: the run's saved result; nil: the launch failed.
func writeJUnit(ctx context.Context, path string, rc *launcher.Receipt, r *launcher.Result) error {
	text, err := xml.MarshalIndent(newJUnit(rc, func(attempt int) string { return endOfOutput(ctx, r, attempt) }), "", "  ")
	if err != nil {
		return err
	}
	return sharedfile.Write(path, append([]byte(xml.Header), append(text, '\n')...), 0o644)
}

// terminalColours are the escape sequences of terminals that set colours (ECMA-48, SGR): XML cannot have them.
var terminalColours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// endOfOutput is empty where the output cannot be read: the report is about how the run ended.
func endOfOutput(ctx context.Context, r *launcher.Result, attempt int) string {
	if r == nil {
		return ""
	}
	kept := &tail.Tail{Size: junitOutput}
	if err := app.CopyLog(ctx, kept, &r.Status, r.OpenLog, attempt, 0); err != nil {
		return ""
	}
	return terminal.Clean(terminalColours.ReplaceAllString(kept.String(), ""))
}
