package launcher

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/launcher/keeper"
)

// renew tells the keeper at each interval that this client is there. A failure is tried again at the next tick: the
// keeper ends the run only when renewals stay away for the whole time it was told.
func (v *view) renew(ctx context.Context) {
	tick := time.NewTicker(v.o.Renew)
	defer tick.Stop()
	for {
		if err := v.renewOnce(ctx); err != nil && ctx.Err() == nil {
			v.log.Debug("renewal failed", "cluster", v.id, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (v *view) renewOnce(ctx context.Context) error {
	e, err := v.l.Dial(ctx, v.id, Keeper)
	if err != nil {
		return err
	}
	defer e.Close()
	c := KeeperClient(e)
	defer c.Close()
	return c.Renew(ctx)
}

// KeeperClient talks to the keeper behind an Endpoint.
func KeeperClient(e *Endpoint) *keeper.Client {
	return keeper.NewClient(keeper.Endpoint{URL: e.URL, Token: e.Token, TokenHeader: e.TokenHeader, DialContext: e.DialContext})
}
