package remote

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/test/needs"
)

// TestLoginShells hands hostile arguments, and rayctl's own programs, to real login shells as sshd does: SHELL -c LINE.
func TestLoginShells(t *testing.T) {
	hostile := []string{"", "plain", "two words", "it's", `"$HOME" $(id) ` + "`id`", `back\slash \\ \' \n`, "line\nbreak\n", "!! !x a!b", "~ * ? [a] {b,c} #d %e ^f ;g &h |i <j >k", "é\t"}
	for shell, pkg := range map[string]string{"sh": "dash", "bash": "bash", "tcsh": "tcsh", "fish": "fish"} {
		t.Run(shell, func(t *testing.T) {
			program := needs.Program(t, shell, pkg)
			t.Setenv("HOME", t.TempDir())
			run := func(argv ...string) string {
				out, err := exec.CommandContext(t.Context(), program, "-c", loginShellCommand(argv)).CombinedOutput()
				if err != nil {
					t.Errorf("%q: %v: %s", argv, err, out)
				}
				return string(out)
			}
			for _, word := range hostile {
				if got := run("printf", "%s\\000", word, "end"); got != word+"\x00end\x00" {
					t.Errorf("%q arrived as %q", word, got)
				}
			}
			if got := strings.Split(strings.TrimSuffix(run(append([]string{"printf", "%s\\000"}, hostile...)...), "\x00"), "\x00"); !slices.Equal(got, hostile) {
				t.Errorf("all together arrived as %q", got)
			}
			if got := run(Clean("A=b c", "sh", "-c", `echo "$A"`)...); got != "b c\n" {
				t.Errorf("in a clean environment: %q", got)
			}
			if got := run(CleanStep("sh", "-c", "echo step")...); got != "step\n" {
				t.Errorf("a step: %q", got)
			}
			run("python3", "-c", bootstrap, "0")
		})
	}
}

// TestLoginPath: what only a login shell's startup files make known is found.
func TestLoginPath(t *testing.T) {
	for shell, x := range map[string]struct{ pkg, file, text string }{
		"dash": {"dash", ".profile", `PATH="$HOME/slurm bin:$PATH"; export PATH`},
		"bash": {"bash", ".bash_profile", `export PATH="$HOME/slurm bin:$PATH"; echo Welcome`},
		"zsh":  {"zsh", ".zprofile", `export PATH="$HOME/slurm bin:$PATH"`},
		"tcsh": {"tcsh", ".login", `setenv PATH "$HOME/slurm bin:$PATH"`},
		"fish": {"fish", ".config/fish/config.fish", `status is-login; and set -gx PATH "$HOME/slurm bin" $PATH`},
	} {
		t.Run(shell, func(t *testing.T) {
			program, home := needs.Program(t, shell, x.pkg), t.TempDir()
			for name, text := range map[string]string{x.file: x.text + "\n", "slurm bin/sbatch": "#!/bin/sh\necho its sbatch \"$@\"\n"} {
				path := filepath.Join(home, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o700)); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), program, "-c", loginShellCommand(withLoginPath(Clean("sbatch", "two words"))))
			cmd.Env = []string{"HOME=" + home, "SHELL=" + program, "PATH=/usr/bin:/bin"}
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != "its sbatch two words\n" {
				t.Errorf("%v: %q", err, out)
			}
		})
	}
}

// Options of the user go before rayctl's own, and ssh takes the first.
func TestOptionsOverride(t *testing.T) {
	s := &SSH{Host: "login.invalid", Options: []string{"BatchMode=no", "ServerAliveInterval=7", "ControlPath=/x/y"}, Config: "/dev/null", control: "/c"}
	out, err := exec.CommandContext(t.Context(), needs.Program(t, "ssh", "openssh-client"), append(s.options(), "-G", "--", s.Host)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"batchmode no", "serveraliveinterval 7", "controlpath /x/y", "controlmaster auto", "serveralivecountmax 3"} {
		if !strings.Contains("\n"+string(out), "\n"+want+"\n") {
			t.Errorf("ssh does not take %q:\n%s", want, out)
		}
	}
}
