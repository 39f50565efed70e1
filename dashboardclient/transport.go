package dashboardclient

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/rayctl/rayctl/dashboardclient/proven"
)

func (c Config) withDefaults() Config {
	if c.TokenHeader == "" {
		c.TokenHeader = HeaderAuthorization
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Retry.Max == 0:
		c.Retry.Max = 5
	case c.Retry.Max < 0:
		c.Retry.Max = 0
	}
	if c.Silence == 0 {
		c.Silence = 2 * time.Minute
	}
	if c.Retry.WaitMin == 0 {
		c.Retry.WaitMin = 50 * time.Millisecond
	}
	if c.Retry.WaitMax == 0 {
		c.Retry.WaitMax = 2 * time.Second
	}
	return c
}

// newHTTP returns the client for all requests.
func newHTTP(config Config, host string) *retryablehttp.Client {
	base := config.Transport
	if base == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.DialContext = (&proven.Dialer{Dialer: net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}}).DialContext
		if config.DialContext != nil {
			// A tunnel leads only to the dashboard: it would receive everything meant for a proxy, including its password.
			transport.DialContext, transport.Proxy = config.DialContext, nil
		}
		transport.ResponseHeaderTimeout = config.Silence // a hanging head must not block the client
		transport.TLSClientConfig = config.TLS
		transport.DisableCompression = true // logs are streamed: compression would delay them
		base = transport
	}
	client := retryablehttp.NewClient()
	client.HTTPClient = &http.Client{
		Transport: &tokenTransport{config: config, host: host, base: base},
		// A redirect means a login page or another server: neither is a dashboard, and neither may get the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	client.RetryMax, client.RetryWaitMin, client.RetryWaitMax = config.Retry.Max, config.Retry.WaitMin, config.Retry.WaitMax
	client.CheckRetry = checkRetry
	client.Backoff = config.wait
	client.ErrorHandler = retryablehttp.PassthroughErrorHandler // returns the last answer or error, not "giving up after 6 attempts"
	client.Logger = nil                                         // its own lines have whole URLs at level ERROR
	client.RequestLogHook = func(_ retryablehttp.Logger, r *http.Request, attempt int) {
		if attempt > 0 {
			config.Logger.Warn("repeating a request to the dashboard", "method", r.Method, "path", r.URL.Path, "attempt", attempt)
		}
	}
	return client
}

// backoff is the wait before a retry that go-retryablehttp does not make itself.
func (c *Client) backoff(attempt int) time.Duration {
	return retryablehttp.DefaultBackoff(c.config.Retry.WaitMin, c.config.Retry.WaitMax, attempt, nil)
}

// longestWait bounds the wait before a retry that a dashboard, or a proxy before it, may request.
const longestWait = 10 * time.Second

// wait is the time before a retry. It follows Retry-After (RFC 9110, 10.2.3) within bounds, and logs that.
func (c Config) wait(least, most time.Duration, attempt int, response *http.Response) time.Duration {
	wait := retryablehttp.DefaultBackoff(least, most, attempt, response)
	if response == nil || response.Header.Get("Retry-After") == "" {
		return wait
	}
	bounded := min(wait, longestWait)
	c.Logger.Warn("the dashboard asked for a pause", "status", response.StatusCode, "asked", wait, "waiting", bounded)
	return bounded
}

// onceKey marks the context of a request that must not be repeated.
type onceKey struct{}

// streamKey marks the context of a request whose answer is a stream: it may pause, and has no end.
type streamKey struct{}

// checkRetry retries after temporary failures. Ray answers 500 for all its own errors, which a retry does not fix.
func checkRetry(ctx context.Context, response *http.Response, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if ctx.Value(onceKey{}) != nil {
		return false, nil
	}
	var token *tokenFileError
	if errors.As(err, &token) {
		return false, nil
	}
	if err != nil {
		return retryablehttp.DefaultRetryPolicy(ctx, response, err) // all errors but wrong URLs and certificates
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true, nil
	}
	return false, nil
}

// tokenTransport adds the token and the headers to requests to the dashboard's own host.
type tokenTransport struct {
	config Config
	host   string
	base   http.RoundTripper
}

func (t *tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := t.config.token()
	if err != nil {
		return nil, err
	}
	if r.URL.Host == t.host {
		r = r.Clone(r.Context())
		if token != "" {
			r.Header.Set(t.config.TokenHeader, "Bearer "+token)
		}
		t.config.addHeaders(r)
	}
	t.config.Logger.Debug("request to the dashboard", "method", r.Method, "path", r.URL.Path)
	response, err := t.base.RoundTrip(r)
	if err == nil && (r.Context().Value(streamKey{}) == nil || response.StatusCode != http.StatusOK) {
		response.Body = &document{ReadCloser: response.Body, Silence: t.config.Silence}
	}
	return response, err
}

// addHeaders adds the user's headers; they replace rayctl's own.
func (c Config) addHeaders(r *http.Request) {
	for name, values := range c.Headers {
		r.Header[name] = values
	}
	if host := c.Headers.Get("Host"); host != "" {
		r.Host = host // net/http takes it from nowhere else
	}
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (t *tokenTransport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// token returns the token to send. A file is read each time, so that a renewed token is picked up.
func (c Config) token() (string, error) {
	if c.Token != "" || c.TokenFile == "" {
		return c.Token, nil
	}
	content, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return "", &tokenFileError{err}
	}
	return strings.TrimSpace(string(content)), nil
}

// tokenFileError is the error of an unreadable token file, which no retry fixes.
type tokenFileError struct{ error }

func (e *tokenFileError) Error() string { return "read the token file: " + e.error.Error() }

func (e *tokenFileError) Unwrap() error { return e.error }
