package app

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// hostile are arguments that a shell would change without quoting.
var hostile = []string{"", " ", "a  b", "new\nline", "tab\t", "$(id)", "`id`", "$HOME", "it's", `"q"`, `back\slash`, "*", "~", "#x", "a=b", "-n", "ünï😀", "\x01", "!!", "{a,b}", "<x>|&;"}

// TestEntrypoint passes hostile arguments to the shell that Ray uses.
func TestEntrypoint(t *testing.T) {
	command, err := Entrypoint(append([]string{"printf", `%s\0`}, hostile...))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", command).Output()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Join(hostile, "\x00")+"\x00", string(out)); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{"a\x00b", "\xff"} {
		if _, err := Entrypoint([]string{bad}); ExitCode(err) != runstate.CodeUsage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
