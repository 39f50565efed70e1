package onemachine

import (
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/local/rundir"
)

// cluster is one run of the launcher.
type cluster struct {
	*rundir.Run
	l *Launcher
}

// client is a client of the keeper; ErrNotReady before it has an address.
func (c *cluster) client(st *runstate.State) (*keeper.Client, error) {
	token, err := c.Token()
	if err != nil || st == nil || st.Keeper.URL == "" {
		return nil, c.notReady("keeper")
	}
	return keeper.NewClient(keeper.Endpoint{URL: st.Keeper.URL, Token: token}), nil
}

func (c *cluster) notReady(what string) error {
	return launcher.Fail(runstate.CodeUnreachable, launcher.ErrNotReady, "`rayctl status "+c.Name+"` shows what it waits for", "the %s of %s does not answer yet", what, c.Name)
}

func (l *Launcher) cluster(name string) *cluster {
	return &cluster{Run: rundir.At(l.clusters, name, l.host), l: l}
}

// open finds the cluster of an id; ErrNotFound if there is none.
func (l *Launcher) open(id launcher.ID) (*cluster, error) {
	run, err := rundir.Open(l.clusters, string(id), l.host)
	if err != nil {
		return nil, err
	}
	return &cluster{Run: run, l: l}, nil
}
