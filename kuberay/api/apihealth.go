package api

import (
	"net/http"
	"sync"
)

// Health records whether the API server answers: informers retry after a refused connection without reporting it.
type Health struct {
	mu     sync.Mutex
	broken string // why it does not, "" while it does
}

// wrap is a transport that notes it.
func (p *Health) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		switch {
		case err == nil:
			p.set("")
		case r.Context().Err() == nil:
			p.set(err.Error())
		}
		return response, err
	})
}

func (p *Health) set(broken string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = broken
}

// Trouble is why the API server does not answer; "" while it does.
func (p *Health) Trouble() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
