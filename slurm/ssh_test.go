//go:build linux

package slurm_test

import (
	"context"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/remote"
)

// overSSH: the same launcher through a real sshd, with strict host keys, and through a jump host. A cut connection heals.
func (b *bed) overSSH(t *testing.T) {
	release := b.occupy(t)
	defer release()
	for _, host := range []string{"login", "inner"} {
		t.Run(host, func(t *testing.T) {
			ssh, err := remote.NewSSH(host, nil)
			if err != nil {
				t.Fatal(err)
			}
			ssh.Config = b.Login.Config
			l := slurm.New(slurm.Config{Runner: ssh, Dir: b.Dir()})
			defer func() {
				l.Close()
				if err := ssh.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			id, err := l.Launch(t.Context(), b.named("ssh-"+host, "echo it's $(id)"), launcher.Payload{})
			if err != nil {
				t.Fatal(err)
			}
			cut := false
			watchUntil(t, l, id, func(s launcher.Status) bool {
				if !cut {
					cut = true
					b.Login.Direct.Cut()
					b.Login.Gateway.Cut()
				}
				return s.Unreachable == "" && s.Reason.Code == "Resources"
			})
			b.down(t, l, id)
			if r, err := l.Result(t.Context(), id); err != nil || r.Exit.Cause != "down" {
				t.Errorf("result: %+v, %v", r, err)
			}
			if err := l.Forget(t.Context(), id); err != nil {
				t.Error(err)
			}
			b.nothingLeft(t, "ssh-"+host)
		})
	}
}

// aWrongHostKey is never accepted.
func (b *bed) aWrongHostKey(t *testing.T) {
	ssh, err := remote.NewSSH("login", []string{"UserKnownHostsFile=" + b.Cluster.Dir + "/ssh/known_hosts.wrong"})
	if err != nil {
		t.Fatal(err)
	}
	ssh.Config = b.Login.Config
	_, err = slurm.New(slurm.Config{Runner: ssh, Dir: b.Dir()}).Launch(t.Context(), b.named("ssh-wrong", "true"), launcher.Payload{})
	if launcher.ExitCode(err) != runstate.CodeUnreachable {
		t.Errorf("%v (code %d)", err, launcher.ExitCode(err))
	}
}
