//go:build linux

package slurm_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestLogin: what users have made of their way to the login node.
func TestLogin(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t, slurmtest.Options{Nodes: 1, LoginSSH: true})
	t.Run("ShellPrints", b.shellPrints)
	t.Run("OwnMaster", b.ownMaster)
	t.Run("PathOfLoginShells", b.pathOfLoginShells)
	b.leavesNothing(t)
}

func (b *bed) sshTo(t *testing.T, config string, options ...string) *remote.SSH {
	t.Helper()
	ssh, err := remote.NewSSH("login", options)
	if err != nil {
		t.Fatal(err)
	}
	ssh.Config = config
	return ssh
}

// pathOfLoginShells: Slurm's commands are known in login shells alone, which commands of ssh do not run in.
func (b *bed) pathOfLoginShells(t *testing.T) {
	home, err := b.Cluster.Command(t.Context(), "", "sh", "-c", "printf %s ~").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{".bashrc": "PATH=/usr/bin:/bin\n", ".bash_profile": "export PATH=" + slurmtest.SearchPath + "\n"} {
		file := filepath.Join(string(home), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(file)
	}
	plain := exec.CommandContext(t.Context(), "ssh", "-F", b.Login.Config, "login", "squeue")
	if out, err := plain.CombinedOutput(); err == nil || !strings.Contains(string(out), "not found") {
		t.Fatalf("squeue is found without a login shell: %v, %s", err, out)
	}
	ssh := b.sshTo(t, b.Login.Config)
	l := slurm.New(slurm.Config{Runner: ssh, Dir: b.Dir()})
	defer func() {
		l.Close()
		if err := ssh.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	r := b.beginBy(t, l, b.named("found", "echo found"), launcher.Payload{})
	r.ended(0, "succeeded", "")
	r.forgotten()
}

// prints is a line of a startup file, in each of these shells.
const prints = "echo Maintenance on Friday; printf '{\"id\": 1} see the wiki: '\n"

// shellPrints: what the startup file of a login shell prints, with no line break at the end, is taken for nobody's answer; and no command line is for one shell alone.
func (b *bed) shellPrints(t *testing.T) {
	t.Cleanup(func() {
		if err := b.SetShell("/bin/bash"); err != nil {
			t.Error(err)
		}
	})
	g := b.waitFile(t)
	s := b.named("noisy", "echo in spite of it; "+g.wait())
	l := b.noisyLogin(t, "bash", ".bashrc")
	if bad := failing(l.Check(t.Context(), s)); len(bad) > 0 {
		t.Errorf("doctor finds %q: %+v", bad, l.Check(t.Context(), s))
	}
	r := b.beginBy(t, l, s, launcher.Payload{})
	r.until("running", jobRuns)
	b.asked(t, l, r.id)
	for shell, startup := range map[string]string{"tcsh": ".tcshrc", "fish": ".config/fish/config.fish"} {
		t.Run(shell, func(t *testing.T) {
			l := b.noisyLogin(t, shell, startup)
			if bad := failing(l.Check(t.Context(), s)); len(bad) > 0 {
				t.Errorf("doctor finds %q: %+v", bad, l.Check(t.Context(), s))
			}
			b.asked(t, l, r.id)
			b.launchedAndEnded(t, l, "by-"+shell)
		})
	}
	g.create()
	r.ended(0, "succeeded", "")
	if r.out.String() != "in spite of it\n" {
		t.Errorf("output %q", r.out.String())
	}
	r.forgotten()
}

// noisyLogin is the launcher of a user with a login shell whose startup file prints, by a connection of its own.
func (b *bed) noisyLogin(t *testing.T, shell, startup string) *slurm.Launcher {
	t.Helper()
	program, file := needs.Program(t, shell, shell), filepath.Join(b.Home(""), startup)
	err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(prints), 0o600), b.SetShell(program))
	if err != nil {
		t.Fatal(err)
	}
	ssh := b.sshTo(t, b.Login.Config, "SetEnv=LOGIN_SHELL="+shell) // no other login has these options, and so its connection
	out, err := ssh.Command(t.Context(), "sh", "-c", `echo "$SHELL"`).Output()
	if err != nil || !strings.HasPrefix(string(out), "Maintenance") || !strings.HasSuffix(string(out), "wiki: "+program+"\n") {
		t.Fatalf("the login shell is not %s, or does not print: %q, %v", program, out, err)
	}
	l := slurm.New(slurm.Config{Runner: ssh, Dir: b.Dir()})
	t.Cleanup(func() {
		l.Close()
		if err := errors.Join(ssh.Close(context.Background()), os.Remove(file)); err != nil {
			t.Error(err)
		}
	})
	return l
}

// asked: a run that goes on answers whoever asks, each in the way of its kind.
func (b *bed) asked(t *testing.T, l *slurm.Launcher, id launcher.ID) {
	t.Helper()
	if listed, err := l.List(t.Context(), launcher.Selector{Names: []string{string(id)}}); err != nil || len(listed) != 1 || !jobRuns(listed[0]) {
		t.Errorf("listed: %+v, %v", listed, err)
	}
	if via, err := answers(t.Context(), l, id, launcher.Keeper); err != nil {
		t.Errorf("by %q, %v", via, err)
	}
	var out bytes.Buffer
	command := []string{"printf", "%s,", "two words", "it's $HOME!", "a\nb\\n"}
	code, err := l.Exec(t.Context(), id, launcher.ExecRequest{Command: command, Stdout: &out})
	if want := strings.Join(command[2:], ",") + ","; code != 0 || err != nil || out.String() != want {
		t.Errorf("exec: code %d, %v, %q, want %q", code, err, out.String(), want)
	}
}

// launchedAndEnded takes a launch to Slurm's queue and out of it, which needs no Ray.
func (b *bed) launchedAndEnded(t *testing.T, l *slurm.Launcher, name string) {
	t.Helper()
	open := b.closePartition(t)
	defer open()
	id, err := l.Launch(t.Context(), b.named(name, "echo never"), launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	watchUntil(t, l, id, func(s launcher.Status) bool { return s.Phase == runstate.Queued && s.Where != "" })
	b.down(t, l, id)
	if gone := watchUntil(t, l, id, isGone); gone.Exit == nil || gone.Exit.Cause != "down" {
		t.Errorf("exit: %+v", gone.Exit)
	}
	if err := l.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
	b.nothingLeft(t, name)
}

// ownMaster: where only a person can log in (here: the key is taken away from everybody else), the connection that the user has open is used, and stays.
func (b *bed) ownMaster(t *testing.T) {
	config, err := os.ReadFile(b.Login.Config)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	shared := filepath.Join(dir, "config")
	text := "Host *\n  ControlPath " + dir + "/%r@%n\n  PubkeyAuthentication no\n" + string(config)
	if err := os.WriteFile(shared, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	alone := b.sshTo(t, shared)
	if out, err := alone.Command(t.Context(), "true").CombinedOutput(); err == nil {
		t.Fatalf("who is not the user logs in: %s", out)
	}
	user := func(args ...string) error {
		out, err := exec.CommandContext(t.Context(), "ssh", append([]string{"-F", shared}, args...)...).CombinedOutput()
		if err != nil {
			t.Logf("ssh %q: %v: %s", args, err, out)
		}
		return err
	}
	if err := user("-o", "PubkeyAuthentication=yes", "-o", "ControlMaster=yes", "-o", "ControlPersist=yes", "login", "true"); err != nil {
		t.Fatal(err)
	}
	// Without a ControlPath in the configuration, slurm.sshOptions names it: it replaces rayctl's own.
	elsewhere := filepath.Join(dir, "elsewhere")
	if err := os.WriteFile(elsewhere, []byte("Host *\n  PubkeyAuthentication no\n"+string(config)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := b.sshTo(t, elsewhere).Command(t.Context(), "true").CombinedOutput(); err == nil {
		t.Fatalf("a connection of rayctl's own is let in: %s", out)
	}
	if out, err := b.sshTo(t, elsewhere, "ControlPath="+dir+"/%r@%n").Command(t.Context(), "true").CombinedOutput(); err != nil {
		t.Errorf("with sshOptions: %v: %s", err, out)
	}
	ssh := b.sshTo(t, shared)
	l := slurm.New(slurm.Config{Runner: ssh, Dir: b.Dir()})
	r := b.beginBy(t, l, b.named("by-theirs", "echo in"), launcher.Payload{})
	r.ended(0, "succeeded", "")
	r.forgotten()
	l.Close()
	if err := ssh.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := user("-O", "check", "login"); err != nil {
		t.Errorf("the user's connection was ended: %v", err)
	}
	if err := user("-O", "exit", "login"); err != nil {
		t.Error(err)
	}
}
