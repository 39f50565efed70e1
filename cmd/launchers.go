package cmd

import (
	"log/slog"

	"k8s.io/klog/v2"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local"
	"github.com/rayctl/rayctl/slurm"
)

// launchers are the substrates in this build.
func launchers() map[string]app.NewLauncher {
	return map[string]app.NewLauncher{
		spec.LauncherLocal: func(_ *spec.ClusterSpec, log *slog.Logger) (launcher.Launcher, error) {
			return local.New(local.Config{Logger: log})
		},
		spec.LauncherKubeRay: func(s *spec.ClusterSpec, log *slog.Logger) (launcher.Launcher, error) {
			klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go would write messages about lost connections to stderr
			return kuberay.New(kuberay.ConfigOf(s, log)), nil
		},
		spec.LauncherSlurm: func(s *spec.ClusterSpec, log *slog.Logger) (launcher.Launcher, error) {
			return slurm.For(s, log)
		},
	}
}
