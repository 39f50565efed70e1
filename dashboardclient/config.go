package dashboardclient

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Headers that Ray (2.52 and later) reads its token from.
const (
	// HeaderAuthorization is the usual header for a dashboard's token.
	HeaderAuthorization = "Authorization"
	// HeaderRayAuthorization is for a dashboard behind a proxy that needs Authorization for itself, such as the Kubernetes API server.
	HeaderRayAuthorization = "X-Ray-Authorization"
)

// Config describes how to reach one dashboard. Only URL is required.
type Config struct {
	// URL is the dashboard's address, "http://127.0.0.1:8265". A path is kept as a prefix, for dashboards behind a proxy.
	URL string
	// Source is what URL was taken from, such as a variable, for errors; it may be empty.
	Source string
	// Token is Ray's authentication token. It is sent as "Bearer TOKEN" and never logged or put in an error. Empty: none is sent.
	Token string
	// TokenFile is read for each request, so that a token renewed on disk is picked up. It is used only if Token is empty.
	TokenFile string
	// TokenHeader is HeaderAuthorization (the default) or HeaderRayAuthorization.
	TokenHeader string
	// Headers are sent with each request, Authorization in place of the token. Like the token they are for the dashboard's host alone, and never logged
	// or put in an error.
	Headers http.Header
	// TLS is how an https address is checked; nil: against the system's authorities.
	TLS *tls.Config
	// Transport carries all requests, if given; DialContext is then not used.
	Transport http.RoundTripper
	// DialContext opens the connections, for dashboards behind a tunnel. Its address argument is URL's host and port. With DialContext
	// the environment's HTTP_PROXY is not used.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger gets one debug line for each request and a warning for each retry. Nil: no logging.
	Logger *slog.Logger
	// Retry bounds the repetition of requests that failed for a temporary reason.
	Retry Retry
	// Silence is the longest wait for the beginning of an answer, and between two bytes of an answer that is a document. 0: two
	// minutes. The slowest known answer is that to a submission that waits for the head's agent.
	Silence time.Duration
}

// Retry bounds the repetition of one request. Waits grow exponentially from WaitMin to WaitMax.
type Retry struct {
	// Max is the number of repetitions after the first try. 0: 5. Negative: none.
	Max int
	// WaitMin is the first wait. 0: 50 ms.
	WaitMin time.Duration
	// WaitMax is the longest wait. 0: 2 s.
	WaitMax time.Duration
}
