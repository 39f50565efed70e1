package cmd

import (
	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/local"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/tsp"
)

// substrates are the launchers in this build. A line adds one: docs/adding-a-launcher.md.
var substrates = []launcher.Substrate{
	local.Substrate,
	slurm.Substrate,
	kuberay.Substrate,
	tsp.Substrate,
}

// launchers are the substrates by name.
func launchers() map[string]app.NewLauncher {
	all := map[string]app.NewLauncher{}
	for _, s := range substrates {
		all[s.Name] = s.New
	}
	return all
}
