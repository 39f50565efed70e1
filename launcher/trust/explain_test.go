package trust

import (
	"os"
	"testing"
)

// TestExplain: where everybody can write to the home directory, the fix needs no condition: it is the user's own.
func TestExplain(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	dir := home + "/d"
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ open, reason, fix string }{
		{home, "your home directory " + home + " can be written by every user", "run `chmod go-w " + home + "`, after which only you can write there"},
		{dir, dir + " can be written by every user", "`chmod go-w " + dir + "` if it is yours alone"},
	} {
		if err := os.Chmod(c.open, 0o777); err != nil {
			t.Fatal(err)
		}
		if reason, fix := Explain(Check(dir)); reason != c.reason || fix != c.fix {
			t.Errorf("%q, %q; want %q, %q", reason, fix, c.reason, c.fix)
		}
		if err := os.Chmod(c.open, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
