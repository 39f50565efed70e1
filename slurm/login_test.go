//go:build linux

package slurm_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestLogin: what users have made of their way to the login node.
func TestLogin(t *testing.T) {
	pace.Parallel(t)
	b := start(t, slurmtest.Options{Nodes: 1, LoginSSH: true})
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

// shellPrints: what a .bashrc prints, with no line break at the end, is taken for nobody's answer.
func (b *bed) shellPrints(t *testing.T) {
	home, err := b.Cluster.Command(t.Context(), "", "sh", "-c", "echo ~").Output()
	if err != nil {
		t.Fatal(err)
	}
	bashrc := filepath.Join(string(home[:len(home)-1]), ".bashrc")
	if err := os.WriteFile(bashrc, []byte("echo Maintenance on Friday; printf '{\"id\": 1} see the wiki: '\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(bashrc)
	ssh := b.sshTo(t, b.Login.Config)
	if out, err := ssh.Command(t.Context(), "echo", "there").Output(); err != nil || string(out) == "there\n" {
		t.Fatalf("the shell does not print: %q, %v", out, err)
	}
	l := slurm.New(slurm.Config{Runner: ssh, Dir: b.Dir()})
	defer func() {
		l.Close()
		if err := ssh.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	g := b.gate(t)
	s := b.named("noisy", "echo in spite of it; "+g.wait())
	if bad := failing(l.Check(t.Context(), s)); len(bad) > 0 {
		t.Errorf("doctor finds %q: %+v", bad, l.Check(t.Context(), s))
	}
	r := b.beginBy(t, l, s, launcher.Payload{})
	r.until("running", jobRuns)
	if via, err := answers(t.Context(), l, r.id, launcher.Keeper); err != nil {
		t.Errorf("by %q, %v", via, err)
	}
	g.open()
	r.ended(0, "succeeded", "")
	if r.out.String() != "in spite of it\n" {
		t.Errorf("output %q", r.out.String())
	}
	r.forgotten()
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
