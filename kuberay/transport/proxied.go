package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// proxied makes connections by the API server's proxy of a Service, for users who may not forward ports. That proxy passes on only HTTP requests. To hide this from
// callers, each connection that Dial returns ends at an HTTP server in this process. The server sends the requests on to the Service's path at the API server, with
// the credentials for Kubernetes. Ray's token is in a header of its own, because Kubernetes uses the header Authorization.
type proxied struct {
	Place
	api       API
	base      *url.URL
	transport http.RoundTripper
	conns     *pipes
	server    *http.Server
}

const rayAuthorization = "X-Ray-Authorization"

func newProxied(a API, p Place) (*proxied, error) {
	config := rest.CopyConfig(a.Config)
	config.NextProtos = []string{"http/1.1"} // HTTP/2 carries no websockets
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare the API server's proxy: %w", err)
	}
	x := &proxied{Place: p, api: a, transport: transport, conns: newPipes()}
	x.base = a.Core.CoreV1().RESTClient().Get().Namespace(a.Namespace).Resource("services").Name(p.Service + ":" + strconv.Itoa(p.Port)).SubResource("proxy").URL()
	silent := log.New(io.Discard, "", 0)
	x.server = &http.Server{ErrorLog: silent, Handler: &httputil.ReverseProxy{
		Rewrite: x.rewrite, Transport: transport, FlushInterval: -1, ModifyResponse: x.check, ErrorLog: silent,
		// The caller gets a broken connection, as it would from the target itself.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}}
	go func() { _ = x.server.Serve(x.conns) }() // it ends with close
	return x, nil
}

func (x *proxied) rewrite(r *httputil.ProxyRequest) {
	// The API server rewrites the links in pages, so that they begin with the Service's path.
	if rest, ok := strings.CutPrefix(r.Out.URL.Path, x.base.Path); ok {
		r.Out.URL.Path, r.Out.URL.RawPath = rest, ""
	}
	r.SetURL(x.base)
	if token := r.Out.Header.Get("Authorization"); token != "" {
		r.Out.Header.Del("Authorization")
		r.Out.Header.Set(rayAuthorization, token)
	}
}

// check distinguishes the API server's own refusals from answers of the target.
func (x *proxied) check(r *http.Response) error {
	if to := r.Header.Get("Location"); to != "" {
		r.Header.Set("Location", strings.TrimPrefix(to, x.base.Path))
	}
	err := refusal(r)
	if isForbidden(err) {
		return nil // passed on to the caller, because it names the verb
	}
	return err
}

// mostStatus is a number of bytes that no Status of the API server exceeds.
const mostStatus = 64 << 10

// refusal is the error in an answer of the API server itself. The body stays readable.
func refusal(r *http.Response) error {
	if r.StatusCode < http.StatusBadRequest || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, mostStatus))
	if err != nil {
		return err
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), r.Body), r.Body}
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Kind == "Status" && status.APIVersion == "v1" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	return nil
}

// Ready requests a path for which the target needs no token; any response of the target will do, also an error status.
func (x *proxied) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, x.base.JoinPath("api/authentication_mode").String(), nil)
	if err != nil {
		return fmt.Errorf("ask through the API server's proxy: %w", err)
	}
	answer, err := x.transport.RoundTrip(request)
	if err == nil {
		defer answer.Body.Close()
		err = refusal(answer)
	}
	return x.api.Explain(err, "get", "services/proxy")
}

func (x *proxied) Dial(ctx context.Context) (net.Conn, error) { return x.conns.dial(ctx) }
func (x *proxied) Via() string {
	return "the API server's proxy of service " + x.Service
}
func (x *proxied) Close() { _ = x.server.Close() }

// pipes is a net.Listener within this process.
type pipes struct {
	next   chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{next: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.next <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.next:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener; http.Server calls it once.
func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return podAddr("proxy") }
