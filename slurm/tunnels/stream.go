package tunnels

import (
	"context"
	"sync"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/rundir"
)

// Stream receives the keeper's state by long polls of its API. While it is connected, neither controller nor files need be read: the job lives, and every
// change arrives at once. It never opens a tunnel that would cost the controller a job step.
type Stream struct {
	cancel context.CancelFunc
	news   chan struct{} // closed when the keeper is silent

	mu    sync.Mutex
	state *runstate.State
}

// Listen starts the long polls; nil where no tunnel is free (see Transport.free).
func (w *Pool) Listen(ctx context.Context, run *rundir.Run) *Stream {
	if run.Address(launcher.Keeper) == "" || run.Token == "" || run.Current.Node == "" {
		return nil
	}
	transport := w.Transport(ctx, run)
	if !transport.free() {
		_ = transport.Release() // never fails
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Stream{cancel: cancel, news: make(chan struct{}, 1)}
	k := keeper.NewClient(keeper.Endpoint{URL: run.State.Keeper.URL, Token: run.Token, DialContext: transport.dialContext})
	go func() {
		defer func() {
			k.Close()
			_ = transport.Release() // never fails
			cancel()
			close(p.news)
		}()
		p.hear(ctx, k)
	}()
	return p
}

// hear receives states until a request fails or the state is final.
func (p *Stream) hear(ctx context.Context, k *keeper.Client) {
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
		default: // one is pending already
		}
		if st.Exit != nil {
			return
		}
	}
}

// News has an element for a new state, and is closed when the keeper does not answer any more or the state is final; nil without a stream.
func (p *Stream) News() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.news
}

// Heard is the last state; nil before the first.
func (p *Stream) Heard() *runstate.State {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Stop ends the listening.
func (p *Stream) Stop() {
	if p != nil {
		p.cancel()
	}
}

// Speaks reports whether a state was received that is not final.
func (p *Stream) Speaks() bool {
	st := p.Heard()
	return st != nil && st.Exit == nil
}
