package cmd

import (
	"os"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// startHere starts a job without a directory in the current one if its nodes share it: on this machine, and in a Slurm cluster
// whose commands run here (like sbatch). So `rayctl run -- python train.py` finds train.py.
func startHere(job *spec.Job, s *spec.ClusterSpec) error {
	if job.WorkingDir != "" || job.Cwd != "" || !sharesDirectories(s) {
		return nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return fail(runstate.CodeConfig, err, "change to a directory that exists", "the current directory is gone: %v", err)
	}
	job.Cwd = dir
	return nil
}

func sharesDirectories(s *spec.ClusterSpec) bool {
	switch s.Launcher {
	case spec.LauncherLocal:
		return true
	case spec.LauncherSlurm:
		return s.Slurm == nil || (s.Slurm.Host == "" && s.Slurm.RESTURL == "")
	default:
		return false
	}
}
