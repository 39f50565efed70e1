//go:build linux

package slurmtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/pace"
)

// TestVersions starts four nodes of each version, runs a step on all of them, and uses the ways into the site: ssh and slurmrestd.
func TestVersions(t *testing.T) {
	pace.Parallel(t)
	for _, rel := range releases {
		t.Run(rel.version, func(t *testing.T) {
			c := Start(t, Options{Version: rel.version, Nodes: 4, LoginSSH: true, Slurmrestd: os.Getuid() == 0})
			ctx := t.Context()
			version := slurm(t, c, "sinfo", "--version")
			if !strings.Contains(version, rel.version+".") {
				t.Errorf("sinfo --version: %q", version)
			}
			out := slurm(t, c, "srun", "-N4", "-l", "sh", "-c", "hostname; hostname -I")
			for _, want := range []string{"0: node1", "3: node4", "0: " + nodeAddress(1), "3: " + nodeAddress(4)} {
				if !strings.Contains(out, want) {
					t.Errorf("srun hostname: no %q in\n%s", want, out)
				}
			}
			id, err := c.Submit(ctx, "srun touch /tmp/mine /dev/shm/mine; srun ls /tmp /dev/shm; exit 3", "-N2")
			if err != nil {
				t.Fatal(err)
			}
			c.AwaitJob(t, id, "FAILED")
			left, err := c.Leaks(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(left) != 4 {
				t.Errorf("two files on two nodes are left, found: %q", left)
			}
			if _, err := c.Exec(ctx, 1, "rm /tmp/mine /dev/shm/mine"); err != nil {
				t.Error(err)
			}
			if _, err := c.Exec(ctx, 2, "rm /tmp/mine /dev/shm/mine"); err != nil {
				t.Error(err)
			}
			c.RequireClean(t)
			t.Run("Login", c.login)
			t.Run("Slurmrestd", c.slurmrestd)
		})
	}
}

func slurm(t *testing.T, c *Cluster, name string, args ...string) string {
	t.Helper()
	out, err := c.Slurm(context.WithoutCancel(t.Context()), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// slurmrestd is reached through a bridge, with a token.
func (c *Cluster) slurmrestd(t *testing.T) {
	needs.Root(t)
	bridge, err := c.Bridge(t.Context(), c.RestAddress())
	if err != nil {
		t.Fatal(err)
	}
	defer bridge.Close()
	token, err := c.Token(c.User())
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{"22.05": "v0.0.38", "24.11": "v0.0.42", "26.05": "v0.0.45"}
	url := fmt.Sprintf("http://%s/slurm/%s/nodes/", bridge.Addr, paths[c.Options.Version])
	if c.Options.Version == OldestVersion {
		url = strings.TrimSuffix(url, "/")
	}
	if status, body := get(t, url, c.User(), token); status != http.StatusOK || !strings.Contains(body, `"node1"`) {
		t.Errorf("GET %s: %d %s", url, status, body)
	}
	if status, _ := get(t, url, c.User(), "wrong"); status == http.StatusOK {
		t.Error("a wrong token was accepted")
	}
}

func get(t *testing.T, url, user, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-SLURM-USER-NAME", user)
	req.Header.Set("X-SLURM-USER-TOKEN", token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// login is by ssh to the login node, directly and over the gateway, with strict host keys; a connection is cut.
func (c *Cluster) login(t *testing.T) {
	needs.Program(t, "ssh", "openssh-client")
	for _, host := range []string{"login", "inner"} {
		out, err := ssh(t, c, host, "hostname; srun -N1 hostname").CombinedOutput()
		if err != nil || string(out) != "login\nnode1\n" {
			t.Errorf("ssh %s: %v: %s", host, err, out)
		}
	}
	wrong := ssh(t, c, "-oUserKnownHostsFile="+c.Login.KnownHosts+".wrong", "login", "true")
	if out, err := wrong.CombinedOutput(); err == nil || !strings.Contains(string(out), "HOST IDENTIFICATION HAS CHANGED") {
		t.Errorf("wrong host key: %v: %s", err, out)
	}
	c.RequireClean(t)
	cutSession(t, c)
	c.RequireClean(t)
}

// cutSession breaks a session in the middle and expects ssh's own exit code.
func cutSession(t *testing.T, c *Cluster) {
	t.Helper()
	session := ssh(t, c, "login", "echo ready; cat")
	stdin, err := session.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := session.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	c.Login.Direct.CutConnections()
	if err := session.Wait(); err == nil || session.ProcessState.ExitCode() != 255 {
		t.Errorf("a cut session ended with %v", err)
	}
	_ = stdin.Close()
	c.Login.Direct.Refuse(true)
	if err := ssh(t, c, "login", "true").Run(); err == nil {
		t.Error("a refused connection worked")
	}
	c.Login.Direct.Refuse(false)
	if err := ssh(t, c, "login", "true").Run(); err != nil {
		t.Errorf("after refusing: %v", err)
	}
}

func ssh(t *testing.T, c *Cluster, args ...string) *exec.Cmd {
	return exec.CommandContext(t.Context(), "ssh", append([]string{"-F", c.Login.Config}, args...)...)
}
