//go:build linux

package chaos

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// printedLines are lines of an attempt as the driver prints them, but for some.
func printedLines(lines int, without ...int) string {
	var b strings.Builder
	for n := 1; n <= lines; n++ {
		left := false
		for _, w := range without {
			left = left || w == n
		}
		if !left {
			b.WriteString(printedLine(1, n))
		}
	}
	return b.String()
}

// TestGaps: a gap excuses the loss of lines that were printed around the strike, and of no others.
func TestGaps(t *testing.T) {
	const lines, shown, upTo = 20, 8, 12
	torn := strings.Replace(printedLines(lines), "attempt 1 line 10 x", "tempt 1 line 10 x", 1)
	for name, c := range map[string]struct {
		text    string
		missing int
		wrong   string
	}{
		"all":                      {printedLines(lines), 0, ""},
		"lost at the strike":       {printedLines(lines, 9, 10, 11, 12), 4, ""},
		"torn at the strike":       {torn, 1, ""},
		"a note between":           {strings.Replace(printedLines(lines, 10), "attempt 1 line 11", "[the log was truncated here]\nattempt 1 line 11", 1), 1, ""},
		"one that the client had":  {printedLines(lines, 8), 1, "line 8 is missing, and the gap can only have lines 9 to 12"},
		"one that came later":      {printedLines(lines, 13), 1, "line 13 is missing"},
		"the end":                  {printedLines(lines - 1), 1, "line 20 is missing"},
		"everything":               {"", lines, "line 1 is missing"},
		"one twice":                {printedLines(lines) + "attempt 1 line 20 " + strings.Repeat("x", 740%400) + "\n", 0, "line 20 comes after line 20"},
		"one with another's end":   {strings.Replace(printedLines(lines), "line 5 x", "line 5 ", 1), 1, "line 5 is missing"},
		"the last without its end": {strings.TrimSuffix(printedLines(lines), "\n"), 1, "line 20 is missing"},
		"in another order":         {printedLines(lines, 9) + "attempt 1 line 9 " + strings.Repeat("x", 333) + "\n", 0, "line 9 comes after line 20"},
	} {
		missing, wrong := gaps(c.text, lines, shown, upTo)
		if missing != c.missing || !strings.Contains(strings.Join(wrong, "; "), c.wrong) || c.wrong == "" && len(wrong) > 0 {
			t.Errorf("%s: %d missing, %q", name, missing, wrong)
		}
	}
	if last := lastShown(printedLines(7) + "attempt 1 line 8 xx"); last != 7 {
		t.Errorf("the client had %d lines", last)
	}
}

// TestDiffer: each difference between `status` and `ls` is one.
func TestDiffer(t *testing.T) {
	s := func(change func(*launcher.Status)) *launcher.Status {
		of := &launcher.Status{Phase: runstate.Gone, Attempt: 1, Exit: &runstate.Exit{Cause: "lost", Code: 76}}
		change(of)
		return of
	}
	same := s(func(*launcher.Status) {})
	if differ(same, s(func(*launcher.Status) {})) != "" || differ(nil, nil) != "" {
		t.Error("equal ones differ")
	}
	for name, other := range map[string]*launcher.Status{
		"nothing":     nil,
		"phase":       s(func(of *launcher.Status) { of.Phase = runstate.Draining }),
		"attempt":     s(func(of *launcher.Status) { of.Attempt = 2 }),
		"uncommitted": s(func(of *launcher.Status) { of.Uncommitted = true }),
		"no exit":     s(func(of *launcher.Status) { of.Exit = nil }),
		"code":        s(func(of *launcher.Status) { of.Exit.Code = 0 }),
		"cause":       s(func(of *launcher.Status) { of.Exit.Cause = "down" }),
	} {
		if differ(same, other) == "" || differ(other, same) == "" {
			t.Errorf("%s: no difference is seen", name)
		}
	}
}
