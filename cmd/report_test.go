package cmd

import "testing"

// TestForeignError: an error's text never reaches the terminal as an escape sequence.
func TestForeignError(t *testing.T) {
	const hostile = "a\x1b[31mb\x1b]0;title\x07c\rd\u009b2Jf\u202eg\xffi"
	a, _, stderr := testApp()
	a.report(usageError(hostile, "%s", hostile))
	if text := stderr.String(); text == "" || text != clean(text) {
		t.Errorf("stderr: %q", text)
	}
}
