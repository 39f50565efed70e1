//go:build linux

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/test/slurmtest"
)

// logsIn expects that somebody at a terminal is asked for a password, once for several commands; without a terminal the error has the next step.
func (s *site) logsIn(python string) {
	s.t.Helper()
	config, err := os.ReadFile(filepath.Join(s.Home(""), ".ssh", "config"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.endMasters()
	text := "Host login1\n  PubkeyAuthentication no\n" + string(config)
	s.configureSSH(text)
	out, err := s.onLogin1("run", "--set", "ray.python="+python, "--", "true").CombinedOutput()
	if err == nil {
		s.t.Errorf("without a terminal: %s", out)
	}
	contains(s.t, "without a terminal", string(out), "Permission denied (", "on a terminal")
	password := []answer{{"password: ", func() string { return s.Login.Password }}}
	asked := s.typed(s.onLogin1("run", "--set", "ray.python="+python, "--", "echo", "logged in"), password)
	contains(s.t, "the run", asked.String(), "logged in\r\n", "succeeded")
	next := startScreen(s.t, s.onLogin1("ls"), true) // the connection is still open
	if code := next.code(); code != 0 || strings.Contains(next.String(), "password") {
		s.t.Errorf("code %d: %s", code, next)
	}
	s.endMasters()
	s.ownConnection(text, password, "ls")
	if s.Options.TwoFactors {
		s.t.Run("TwoFactors", func(t *testing.T) { s := *s; s.t = t; s.twoFactors(string(config), python) })
	}
}

// twoFactors: a key is not enough, and sshd asks for a password and a code, one after the other. The person who is asked types both.
func (s *site) twoFactors(config, python string) {
	s.t.Helper()
	text := "Host login1\n  Port " + strconv.Itoa(slurmtest.TwoFactorsPort) + "\n" + config
	s.configureSSH(text)
	out, err := s.onLogin1("ls").CombinedOutput()
	if err == nil {
		s.t.Errorf("with a key alone: %s", out)
	}
	contains(s.t, "with a key alone", string(out), "Permission denied (keyboard-interactive)", "on a terminal")
	both := []answer{{"Password: ", func() string { return s.Login.Password }}, {"Verification code: ", s.Login.Code}}
	s.typed(s.onLogin1("ls"), both)
	if out, err := s.onLogin1("ls").CombinedOutput(); err != nil { // the connection is still open
		s.t.Errorf("%v: %s", err, out)
	}
	s.endMasters()
	s.ownConnection(text, both, "doctor", "--workers", "1", "--set", "ray.python="+python)
}

// ownConnection: one that the user has opened, typing what is asked for, serves commands without a terminal, and stays.
func (s *site) ownConnection(config string, answers []answer, verb string, args ...string) {
	s.t.Helper()
	s.configureSSH("Host login1\n  ControlPath " + filepath.Join(s.Home(""), ".ssh", "own") + "\n" + config)
	s.typed(s.Command(s.t.Context(), "", "ssh", "-o", "ControlMaster=yes", "-o", "ControlPersist=yes", "login1", "true"), answers)
	if out, err := s.onLogin1(verb, args...).CombinedOutput(); err != nil {
		s.t.Errorf("with the user's own connection: %v: %s", err, out)
	}
	for _, request := range []string{"check", "exit"} {
		if out, err := s.Command(s.t.Context(), "", "ssh", "-O", request, "login1").CombinedOutput(); err != nil {
			s.t.Errorf("ssh -O %s: %v: %s", request, err, out)
		}
	}
}

// answer is what a person types when ssh asks.
type answer struct {
	asks  string
	types func() string
}

// typed lets somebody at a terminal run a command that asks for these, and succeeds.
func (s *site) typed(c *exec.Cmd, answers []answer) *screen {
	s.t.Helper()
	asked := startScreen(s.t, c, true)
	for _, a := range answers {
		asked.until(a.asks, 1)
		asked.key(a.types() + "\n")
	}
	if code := asked.code(); code != 0 {
		s.t.Fatalf("code %d: %s", code, asked)
	}
	return asked
}

// onLogin1 is a command of rayctl that reaches Slurm through login1.
func (s *site) onLogin1(verb string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	s.t.Cleanup(cancel)
	c := s.Command(ctx, "", home.rayctl, append([]string{verb, "--launcher", "slurm", "--set", "slurm.host=login1"}, args...)...)
	c.Env = append(c.Env, "XDG_RUNTIME_DIR="+s.Home(""))
	return c
}

func (s *site) configureSSH(text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.Home(""), ".ssh", "config"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// endMasters ends rayctl's connections to login1, which stay open for a minute for the next rayctl (ControlPersist).
func (s *site) endMasters() {
	s.t.Helper()
	sockets, _ := filepath.Glob(filepath.Join(s.Home(""), "rayctl", "ssh", "*"))
	for _, socket := range sockets {
		if out, err := s.Command(s.t.Context(), "", "ssh", "-S", socket, "-O", "exit", "login1").CombinedOutput(); err != nil {
			s.t.Errorf("ssh -O exit: %v: %s", err, out)
		}
	}
}

// addLogin1 configures a login node as login1 for the user's ssh.
func (s *site) addLogin1() {
	s.t.Helper()
	config := "Host login1\n  HostName login\n  HostKeyAlias login\n  IdentityFile " + s.Login.Key + "\n  UserKnownHostsFile " + s.Login.KnownHosts + "\n"
	dir := filepath.Join(s.Home(""), ".ssh")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
}
