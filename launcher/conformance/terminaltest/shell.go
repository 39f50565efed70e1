package terminaltest

import (
	"errors"
	"io"
	"os/exec"
	"regexp"
	"testing"

	"github.com/creack/pty"
)

// prompt is what a shell writes when it waits for a command, and the control sequence for terminals after it.
var prompt = regexp.MustCompile(`[$#] (\x1b\[\S*)?\z`)

// Shell starts a command line of rayctl that opens a shell in a cluster, on a terminal of its own, types into the shell, and expects that rayctl ends with
// the shell's exit code. Tests of rayctl's binary call it with a cluster of theirs.
func Shell(t *testing.T, c *exec.Cmd) {
	t.Helper()
	keyboard, err := pty.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	defer keyboard.Close()
	read := func(until *regexp.Regexp) {
		all, buffer := "", make([]byte, 4096)
		for !until.MatchString(all) {
			n, err := keyboard.Read(buffer)
			if all += string(buffer[:n]); err != nil {
				t.Fatalf("%s did not come: %q, %v", until, all, err)
			}
		}
	}
	read(prompt)
	if _, err := io.WriteString(keyboard, "echo \"on $(tty): $((6 * 7))\"\r"); err != nil {
		t.Fatal(err)
	}
	read(regexp.MustCompile(`on /dev/pts/\d+: 42`))
	if _, err := io.WriteString(keyboard, "exit 3\r"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, keyboard) // ends with EIO when the command has ended
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("the end of the shell: %v, want exit code 3", err)
	}
}
