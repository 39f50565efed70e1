package launcher

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/launcher/keeper"
)

// renew periodically reports to the keeper that this client is alive, and first sets the client's end-on-disconnect time. Failures are
// retried: the keeper ends the run only when renewals stay away for the whole time.
func (v *view) renew(ctx context.Context) {
	tick := time.NewTicker(min(v.disconnect/4, 10*time.Second))
	defer tick.Stop()
	for {
		err := AskKeeper(ctx, v.l, v.id, func(c *keeper.Client) error { return v.renewOver(ctx, c, tick.C) })
		if ctx.Err() != nil {
			return
		}
		v.log.Debug("renewal failed", "cluster", v.id, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// renewOver renews over one connection until it fails or ctx ends.
func (v *view) renewOver(ctx context.Context, c *keeper.Client, tick <-chan time.Time) error {
	_, err := c.Disconnect(ctx, v.disconnect)
	for err == nil {
		select {
		case <-tick:
			err = c.Renew(ctx)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return err
}

// letGoTime limits how long a client that detaches tries to reach the keeper, because the user waits for the terminal.
const letGoTime = 10 * time.Second

// letGo switches end-on-disconnect off: a client that detaches on request is not a lost one.
func (v *view) letGo(ctx context.Context) {
	if v.disconnect == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, letGoTime)
	defer cancel()
	err := AskKeeper(ctx, v.l, v.id, func(c *keeper.Client) error {
		_, err := c.Disconnect(ctx, 0)
		return err
	})
	if err != nil {
		v.log.Warn("the keeper could not be notified that this client has detached, so end-on-disconnect will end the run: attach again with `rayctl run --name`", "cluster", v.id, "error", err)
	}
}

// AskKeeper calls ask with a client of the cluster's keeper; errors of Dial are returned unchanged.
func AskKeeper(ctx context.Context, l Launcher, id ID, ask func(*keeper.Client) error) error {
	e, err := l.Dial(ctx, id, Keeper)
	if err != nil {
		return err
	}
	return AskOver(e, ask)
}

// AskOver calls ask with a client of the keeper behind an Endpoint, and closes both.
func AskOver(e *Endpoint, ask func(*keeper.Client) error) error {
	defer e.Close()
	c := KeeperClient(e)
	defer c.Close()
	return ask(c)
}

// KeeperClient makes a client of the keeper behind an Endpoint.
func KeeperClient(e *Endpoint) *keeper.Client {
	return keeper.NewClient(keeper.Endpoint{URL: e.URL, Token: e.Token, TokenHeader: e.TokenHeader, DialContext: e.DialContext})
}
