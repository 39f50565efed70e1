package cmd

import (
	"log/slog"

	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local"
	"github.com/rayctl/rayctl/slurm"
)

// launchers are the substrates that this build knows.
func launchers() map[string]NewLauncher {
	return map[string]NewLauncher{
		spec.LauncherLocal: func(_ *spec.ClusterSpec, log *slog.Logger) (launcher.Launcher, error) {
			return local.New(local.Config{Logger: log})
		},
		spec.LauncherKubeRay: func(s *spec.ClusterSpec, log *slog.Logger) (launcher.Launcher, error) {
			return kuberay.New(kuberay.ConfigOf(s, log)), nil
		},
		spec.LauncherSlurm: func(s *spec.ClusterSpec, log *slog.Logger) (launcher.Launcher, error) {
			return slurm.For(s, log)
		},
	}
}
