package slurm

import (
	"context"
	"os/exec"
	"path/filepath"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// FindTools is the directory of ray.python, where this machine shares it with the nodes. It is none where Slurm is reached by ssh, as a path there says
// nothing about this machine, and where Ray is in the nodes' containers or comes by their setup.
func (l *Launcher) FindTools(ctx context.Context, id launcher.ID) (string, error) {
	c, err := l.running(ctx, id)
	if err != nil {
		return "", err
	}
	if _, elsewhere := l.site.Runner.(*remote.SSH); elsewhere || slurmspec.InContainer(c.Record.Spec) || !filepath.IsAbs(c.Record.Python) {
		return "", nil
	}
	dir := filepath.Dir(c.Record.Python)
	for _, name := range []string{"ray", "python"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return "", nil //nolint:nilerr // these programs are on the nodes alone
		}
	}
	return dir, nil
}

var _ launcher.ToolFinder = (*Launcher)(nil)
