package raytest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/rayctl/rayctl/dashboardclient"
)

// Fault is the fault that a Proxy applies to one request. The zero value is none.
type Fault struct {
	// Refuse closes the connection before the head gets the request.
	Refuse bool
	// LoseAnswer passes the request on, waits for the head's answer, and closes the connection without it.
	LoseAnswer bool
	// CutAfter, if positive, closes the connection after this many bytes of the answer's body.
	CutAfter int64
	// Status, if not 0, replaces the head's answer after the head has handled the request.
	Status int
}

// Proxy is a proxy before a real head that breaks connections like networks and tunnels do.
type Proxy struct {
	// URL of the proxy.
	URL string

	mutex sync.Mutex
	rule  func(*http.Request) Fault
}

// NewProxy starts a proxy before the head. It forwards everything until Break is called.
func NewProxy(t testing.TB, head *Head) *Proxy {
	t.Helper()
	target, err := url.Parse(head.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{rule: func(*http.Request) Fault { return Fault{} }}
	reverse := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval:  -1,
		ModifyResponse: applyFault,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mutex.Lock()
		fault := p.rule(r)
		p.mutex.Unlock()
		if fault.Refuse {
			panic(http.ErrAbortHandler)
		}
		reverse.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), faultKey{}, fault)))
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	p.URL = server.URL
	return p
}

// Break sets the faults of all further requests. Calls of rule are never concurrent.
func (p *Proxy) Break(rule func(*http.Request) Fault) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.rule = rule
}

// Client returns a client of the head that goes through the proxy.
func (p *Proxy) Client(t testing.TB, head *Head) *dashboardclient.Client {
	t.Helper()
	config := head.Config()
	config.URL = p.URL
	client, err := dashboardclient.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type faultKey struct{}

var errFault = errors.New("broken by the test's proxy")

func applyFault(response *http.Response) error {
	fault := response.Request.Context().Value(faultKey{}).(Fault)
	switch {
	case fault.LoseAnswer:
		return errFault
	case fault.Status != 0:
		_ = response.Body.Close()
		response.StatusCode, response.Status = fault.Status, http.StatusText(fault.Status)
		response.Body, response.ContentLength = http.NoBody, 0
		response.Header.Del("Content-Length")
	case fault.CutAfter > 0:
		response.Body = &cutBody{ReadCloser: response.Body, left: fault.CutAfter}
	}
	return nil
}

// cutBody fails after its bytes, which makes the proxy close the connection.
type cutBody struct {
	io.ReadCloser
	left int64
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errFault
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
