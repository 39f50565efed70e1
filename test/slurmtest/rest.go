//go:build linux

package slurmtest

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/rayctl/rayctl/test/slurmtest/internal/agent"
)

// nobody runs slurmrestd if the test is root: slurmrestd refuses root and SlurmUser.
const nobody = 65534

// startRest starts slurmrestd with JWT authentication on the controller.
func (c *Cluster) startRest(ctx context.Context) error {
	plugin := "openapi/slurmctld"
	if c.Options.Version == OldestVersion {
		plugin = "openapi/v0.0.38"
	}
	if c.Options.Accounting && c.Options.Version != OldestVersion {
		plugin += ",openapi/slurmdbd"
	}
	env := []string{"SLURM_JWT=daemon"} // makes it accept tokens
	if os.Getuid() != 0 && c.Options.Version == "24.11" {
		env = append(env, "SLURMRESTD_SECURITY=disable_user_check")
	}
	args := agent.SpawnArgs{Name: "slurmrestd", Env: append(c.env(), env...), Log: c.Dir + "/log/slurmrestd.out",
		Argv: []string{prefix + "/daemons/slurmrestd", "-s", plugin, "-a", "rest_auth/jwt", fmt.Sprintf("%s:%d", ctlAddress, restPort)}}
	if os.Getuid() == 0 {
		args.UID = nobody
	}
	if err := c.agent.Call("Agent.Spawn", args, nil); err != nil {
		return fmt.Errorf("starting slurmrestd: %w", err)
	}
	err := await(ctx, startInterval, "slurmrestd", func() (bool, error) { return c.listens(ctx, c.RestAddress()), nil })
	if err != nil {
		return fmt.Errorf("%w\n%s", err, c.logTail("slurmrestd.out", 5))
	}
	return nil
}

// RestAddress is slurmrestd's host and port inside the cluster: for Dial, Bridge, or commands in the cluster.
func (c *Cluster) RestAddress() string { return fmt.Sprintf("ctl:%d", restPort) }

// Token makes a JSON web token for a user, valid for an hour.
func (c *Cluster) Token(user string) (string, error) {
	out, err := c.run(client("scontrol"), "token", "username="+user, "lifespan=3600")
	if err != nil {
		return "", err
	}
	_, token, ok := strings.Cut(strings.TrimSpace(out), "SLURM_JWT=")
	if !ok {
		return "", fmt.Errorf("scontrol token printed %q", out)
	}
	return token, nil
}
