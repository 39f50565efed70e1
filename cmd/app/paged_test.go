package app_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
)

// linesOf is text of n lines.
func linesOf(n int) (text string) {
	for i := range n {
		text += fmt.Sprintln("line", i)
	}
	return text
}

// TestPaged: on a terminal of 24 rows text that has room on the screen is written as it is, longer text by the pager, which may be left before its end.
func TestPaged(t *testing.T) {
	own := map[string]string{"PAGER": "sed 's/^/| /'"}
	long := strings.Repeat("x", 2000) + "\n"
	for what, c := range map[string]struct {
		variables  map[string]string
		text, want string
	}{
		"short":          {own, linesOf(3), linesOf(3)},
		"long":           {own, linesOf(30), "| " + strings.ReplaceAll(strings.TrimSuffix(linesOf(30), "\n"), "\n", "\n| ") + "\n"},
		"left":           {map[string]string{"PAGER": "head -n 1"}, strings.Repeat(linesOf(10), 10000), "line 0\n"},
		"a wrapped line": {own, long, "| " + long},
		"in CI":          {map[string]string{"PAGER": "sed 's/^/| /'", "CI": "1"}, linesOf(30), linesOf(30)},
		"cat":            {map[string]string{"PAGER": "cat"}, linesOf(30), linesOf(30)},
		"dumb terminal":  {map[string]string{"PAGER": "sed", "TERM": "dumb"}, linesOf(30), linesOf(30)},
		"less, at once":  {nil, linesOf(3), linesOf(3)},
	} {
		screen := apptest.OnTerminal(t, 80, func(a *app.App) {
			a.Getenv = func(name string) string { return c.variables[name] }
			if err := a.Paged(func(w io.Writer) error {
				_, err := io.WriteString(w, c.text)
				return err
			}); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
		if got := strings.ReplaceAll(screen, "\r\n", "\n"); got != c.want {
			t.Errorf("%s: shown %q, want %q", what, got, c.want)
		}
	}
}
