package app

import (
	"context"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// remembered is the cluster of this name where this machine launched it, if the cluster file here is another cluster's: that file, which may name another
// launcher or have mistakes, has nothing to do with it. It is nil if the command line or a variable chooses where to look, or nothing is there.
func (a *App) remembered(ctx context.Context, name string, o *ConfigFlags) *Cluster {
	if o.chosen() || a.Getenv("RAYCTL_LAUNCHER") != "" {
		return nil
	}
	place := a.launched().At(name)
	if place == nil {
		return nil
	}
	here, err := config.Load(config.Options{Flags: o.Flags, Stdin: a.In, SkipValidation: true})
	if err == nil && (here.File == "" || RunOf(here.Spec.Name, name)) {
		return nil
	}
	l, err := a.launcherNamed(place.Launcher, place)
	if err != nil {
		return nil
	}
	found, err := l.List(ctx, launcher.Selector{Names: []string{name}, All: true})
	if err != nil || len(found) == 0 {
		return nil
	}
	return &Cluster{Launcher: l, ID: launcher.ID(name), Spec: spec.For(place, place.Launcher)}
}

// chosen reports whether the command line selects a configuration.
func (o *ConfigFlags) chosen() bool {
	for _, name := range config.SelectionFlags() {
		if o.Flags.Changed(name) {
			return true
		}
	}
	return false
}
