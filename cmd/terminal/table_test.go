package terminal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	rows := [][]string{{"NAME", "PHASE", "REASON"}, {"a-cluster", "Queued", "jobs of higher priority are ahead of it"}, {"b", "Ready", ""}}
	for _, test := range []struct {
		what  string
		width int
		want  string
	}{
		{"without a terminal", 0, `
NAME        PHASE    REASON
a-cluster   Queued   jobs of higher priority are ahead of it
b           Ready
`},
		{"the last column is wrapped", 9 + gap + 6 + gap + 24, `
NAME        PHASE    REASON
a-cluster   Queued   jobs of higher priority
                     are ahead of it
b           Ready
`},
		{"the last column is below", 40, `
NAME        PHASE
    REASON
a-cluster   Queued
    jobs of higher priority are ahead of
    it
b           Ready
`},
		{"each column is below the others", 15, `
NAME
    PHASE
    REASON
a-cluster
    Queued
    jobs of
    higher
    priority
    are ahead
    of it
b
    Ready
`},
	} {
		if d := cmp.Diff(test.want, "\n"+layout(rows, test.width, nil)); d != "" {
			t.Errorf("%s: %s", test.what, d)
		}
	}
	long := [][]string{{"NAME", "PHASE", "REASON"}, {"a", "Gone", "it left /a/very/long/path/of/results here"}, {"b", "Ready", ""}, {"c", "Gone", "/longer/than/the/whole/line/of/the/terminal/is"}}
	if d := cmp.Diff(`
NAME   PHASE   REASON
a      Gone
    it left
    /a/very/long/path/of/results here
b      Ready
c      Gone    /longer/than/the/whole/line/of/the/terminal/is
`, "\n"+layout(long, 38, nil)); d != "" {
		t.Errorf("a long word: %s", d)
	}
	middle := [][]string{{"NAME", "COMMAND", "TYPE", "MESSAGE"}, {"a", "python train.py --lr 0.1 --epochs 20", "JOB", "failed"}, {"b", "true", "JOB", ""}}
	if d := cmp.Diff(`
NAME
    COMMAND
    TYPE   MESSAGE
a
    python train.py --lr
    0.1 --epochs 20
    JOB    failed
b
    true
    JOB
`, "\n"+layout(middle, 27, nil)); d != "" {
		t.Errorf("a long cell in the middle: %s", d)
	}
	if d := cmp.Diff("", layout(nil, 80, nil)); d != "" {
		t.Errorf("no row: %s", d)
	}
	if d := cmp.Diff([]string{"see", "https://example.com/long", "now"}, wrap("see https://example.com/long now", 8)); d != "" {
		t.Errorf("a long word: %s", d)
	}
}

// TestStatesInColour: a state has its colour, which takes no room; other cells have none.
func TestStatesInColour(t *testing.T) {
	rows := [][]string{{"NAME", "PHASE", "DEAD"}, {"a", "Ready", "RUNNING"}, {"b", "Queued: Lost is no state here", "x"}, {"c", "Readyx", "lost"}}
	want := `
NAME   PHASE                           DEAD
a      ` + "\x1b[32mReady\x1b[0m                           \x1b[32mRUNNING\x1b[0m" + `
b      ` + "\x1b[33mQueued\x1b[0m" + `: Lost is no state here   x
c      Readyx                          lost
`
	if d := cmp.Diff(want, "\n"+layout(rows, 0, paintState)); d != "" {
		t.Error(d)
	}
	for variable, value := range map[string]string{"NO_COLOR": "1", "TERM": "dumb"} {
		if colored(func(name string) string { return map[string]string{variable: value}[name] }) {
			t.Errorf("%s=%s is in colour", variable, value)
		}
	}
}
