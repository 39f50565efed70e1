package slurm

import (
	"context"
	"os/exec"
	"path/filepath"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/slurm/tunnels"
)

// Exec runs a command on a node in a step of its own, beside Ray's, with what a driver needs to reach the cluster.
func (l *Launcher) Exec(ctx context.Context, id launcher.ID, e launcher.ExecRequest) (int, error) {
	c, err := l.running(ctx, id)
	if err != nil {
		return 0, err
	}
	if len(e.Command) == 0 {
		return 0, launcher.Fail(runstate.CodeUsage, nil, "give one after --", "there is no command to run")
	}
	host, err := c.run.Host(e.Node)
	if err != nil {
		return 0, err
	}
	return tunnels.Exec(ctx, l.site, c.run, host, e)
}

// ExecOnHost runs a command on the login node.
func (l *Launcher) ExecOnHost(ctx context.Context, e launcher.ExecRequest) (int, error) {
	cmd := l.site.Runner.Command(ctx, e.Command...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.Stdin, e.Stdout, e.Stderr
	return launcher.CommandCode(cmd.Run())
}

// FindTools is the directory of ray.python, where this machine shares it with the nodes. It is none where Slurm is reached by ssh, as a path there means
// nothing about this machine, and where Ray is in the nodes' containers or comes by their setup.
func (l *Launcher) FindTools(ctx context.Context, id launcher.ID) (string, error) {
	c, err := l.running(ctx, id)
	if err != nil {
		return "", err
	}
	if _, elsewhere := l.site.Runner.(*remote.SSH); elsewhere || slurmspec.InContainer(c.run.Record.Spec) || !filepath.IsAbs(c.run.Record.Python) {
		return "", nil
	}
	dir := filepath.Dir(c.run.Record.Python)
	for _, name := range []string{"ray", "python"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return "", nil //nolint:nilerr // these programs are on the nodes alone
		}
	}
	return dir, nil
}
