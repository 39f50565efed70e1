//go:build linux

package slurmtest

import (
	"context"
	"os"
	"strings"
	"testing"

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
