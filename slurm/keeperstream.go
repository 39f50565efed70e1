package slurm

import (
	"context"
	"sync"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// keeperStream is the keeper's own word, by its long poll. While it speaks, neither the controller nor the files need be asked: the job lives, and every
// change is told at once. A way that would cost the controller a step is not made for it.
type keeperStream struct {
	cancel context.CancelFunc
	news   chan struct{} // closed when the keeper is silent

	mu    sync.Mutex
	state *runstate.State
}

// listen begins to hear the keeper; nil where no free way to it is there.
func (c *cluster) listen(ctx context.Context) *keeperStream {
	if c.address(launcher.Keeper) == "" || c.token == "" || c.current.Node == "" {
		return nil
	}
	transport := c.l.tunnels.transport(ctx, c)
	if !transport.free() {
		_ = transport.release() // never fails
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &keeperStream{cancel: cancel, news: make(chan struct{}, 1)}
	k := keeper.NewClient(keeper.Endpoint{URL: c.state.Keeper.URL, Token: c.token, DialContext: transport.dialContext})
	go func() {
		defer func() {
			k.Close()
			_ = transport.release() // never fails
			cancel()
			close(p.news)
		}()
		p.hear(ctx, k)
	}()
	return p
}

// hear takes states until the keeper is silent or has said its last word.
func (p *keeperStream) hear(ctx context.Context, k *keeper.Client) {
	for after := int64(-1); ; {
		st, err := k.Next(ctx, after)
		if err != nil {
			return
		}
		if st.Revision == after {
			continue
		}
		after = st.Revision
		p.mu.Lock()
		p.state = st
		p.mu.Unlock()
		select {
		case p.news <- struct{}{}:
		default: // the last is told already
		}
		if st.Exit != nil {
			return
		}
	}
}

// heard is the last state; nil before the first.
func (p *keeperStream) heard() *runstate.State {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// stop ends the listening.
func (p *keeperStream) stop() {
	if p != nil {
		p.cancel()
	}
}

// speaks says whether the keeper has been heard and is not silent since.
func (p *keeperStream) speaks() bool {
	st := p.heard()
	return st != nil && st.Exit == nil
}

// streamEvery is how often a keeper that could not be heard is tried again: a way may have been opened meanwhile.
const streamEvery = 10 * time.Second

// news are the keeper's; nil while it is not heard.
func (w *watcher) news() <-chan struct{} {
	if w.stream == nil {
		return nil
	}
	return w.stream.news
}
