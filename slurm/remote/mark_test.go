package remote

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestMark: whatever a login shell prints before a command, the output is the command's own, however it arrives.
func TestMark(t *testing.T) {
	output := func(noise string) string {
		argv := Marked("sh", "-c", `printf '%s' "$1"`, "sh", "its\n\x01own")
		line := loginShellCommand([]string{"printf", "%s", noise}) + "; " + loginShellCommand(argv)
		out, err := Here{}.Command(t.Context(), "sh", "-c", line).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for _, noise := range []string{"", "Welcome to the site!\n", "no line break", "--rayctl-", strings.Repeat("long ", 5000)} {
		out := output(noise)
		if !strings.HasPrefix(out, noise) {
			t.Fatalf("the noise is %q", out)
		}
		if got := AfterMark(out); got != "its\n\x01own" {
			t.Errorf("after %.20q: %q", noise, got)
		}
		for name, r := range map[string]io.Reader{"at once": strings.NewReader(out), "byte by byte": iotest.OneByteReader(strings.NewReader(out))} {
			if got, err := io.ReadAll(&SkipMark{From: r}); err != nil || string(got) != "its\n\x01own" {
				t.Errorf("after %.20q, %s: %q, %v", noise, name, got, err)
			}
		}
	}
	if got := AfterMark("only noise"); got != "" {
		t.Errorf("of a command that did not start: %q", got)
	}
}
