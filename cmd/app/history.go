package app

import (
	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/history"
)

// launched is where this machine launched clusters.
func (a *App) launched() history.Places {
	dir, err := a.CacheDir("launched")
	if err != nil {
		a.Logger().Debug("no launch is remembered", "error", err)
	}
	return history.Places{Dir: dir}
}

// RememberLaunch lets later commands find a cluster.
func (a *App) RememberLaunch(c *config.Loaded) {
	if err := a.launched().Remember(c.Spec, c.File, a.Now()); err != nil {
		a.Logger().Debug("the launch is not remembered", "cluster", c.Spec.Name, "error", err)
	}
}

// Launched reports whether this machine remembers the launch of a cluster of this name.
func (a *App) Launched(name string) bool { return a.launched().Has(name) }

// LaunchEnded is called for a cluster that has ended.
func (a *App) LaunchEnded(name string) {
	if err := a.launched().Ended(name); err != nil {
		a.Logger().Debug("the end is not remembered", "cluster", name, "error", err)
	}
}

// RememberEnd saves, for `history`, the end of a cluster that this machine has seen.
func (a *App) RememberEnd(rc *launcher.Receipt) {
	a.LaunchEnded(rc.Name)
	a.RememberReplaced(rc)
}

// RememberReplaced saves, for `history`, a cluster whose name another takes.
func (a *App) RememberReplaced(rc *launcher.Receipt) {
	dir, err := a.CacheDir("receipts")
	if err == nil {
		err = history.Receipts{Dir: dir}.Add(rc)
	}
	if err != nil {
		a.Logger().Debug("the receipt is not in the history", "cluster", rc.Name, "error", err)
	}
}

// Receipts are of the ends that this machine has seen.
func (a *App) Receipts() (history.Receipts, error) {
	dir, err := a.ReadCacheDir("receipts")
	return history.Receipts{Dir: dir}, err
}

// SeenEnd is the receipt of the last cluster of this name that this machine has seen end, for when nobody answers who could say more; nil: there is none, or this
// machine has launched the name again since.
func (a *App) SeenEnd(launcherName, name string) *launcher.Receipt {
	if a.launched().MayLive(name) {
		return nil
	}
	receipts, err := a.Receipts()
	if err != nil {
		a.Logger().Debug("the receipts cannot be read", "error", err)
		return nil
	}
	last, err := receipts.Last(launcherName, name)
	if err != nil {
		a.Logger().Debug("the receipts cannot be read", "error", err)
	}
	return last
}
