package dashboardclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// Client talks to one dashboard. It is safe for concurrent use.
type Client struct {
	config Config
	base   *url.URL
	http   *retryablehttp.Client

	versionMutex sync.Mutex
	version      VersionInfo
}

// New checks the configuration and returns a client. It does not connect.
func New(config Config) (*Client, error) {
	base, err := url.Parse(config.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("dashboard address %q is not a URL such as http://127.0.0.1:8265", config.URL)
	}
	base.Path = strings.TrimRight(base.Path, "/")
	base.RawQuery, base.Fragment = "", ""
	config = config.withDefaults()
	if config.TokenHeader != HeaderAuthorization && config.TokenHeader != HeaderRayAuthorization {
		return nil, fmt.Errorf("token header %q is neither %s nor %s", config.TokenHeader, HeaderAuthorization, HeaderRayAuthorization)
	}
	return &Client{config: config, base: base, http: newHTTP(config, base.Host)}, nil
}

// URL is the dashboard's address, without the token.
func (c *Client) URL() string { return c.base.Redacted() }

// named is the address and where it is from, for errors.
func (c *Client) named() string {
	if c.config.Source == "" {
		return c.URL()
	}
	return c.URL() + " (" + c.config.Source + ")"
}

// Close closes the connections that are not in use. The client may be used again.
func (c *Client) Close() { c.http.HTTPClient.CloseIdleConnections() }

// request is one call of the API.
type request struct {
	doing  string     // for errors: "list jobs"
	method string     // empty: GET
	path   []string   // segments, escaped when sent; one that ends in "/" keeps it
	query  url.Values // may be nil
	body   any        // sent as JSON; a retryablehttp.ReaderFunc is sent as it is
	once   bool       // not repeated
	stream bool       // the answer may pause, and be endless
	limit  time.Duration
}

// endpoint is the request's URL. Segments are escaped, so that a user's id cannot change the path. A segment that
// ends in "/" keeps it, as Ray's own collection paths do.
func (c *Client) endpoint(r request) string {
	u := *c.base
	escaped := u.EscapedPath()
	for _, segment := range r.path {
		slash := strings.HasSuffix(segment, "/")
		escaped += "/" + url.PathEscape(strings.TrimSuffix(segment, "/"))
		if slash {
			escaped += "/"
		}
	}
	u.RawPath = escaped
	u.Path, _ = url.PathUnescape(escaped) // the output of PathEscape is always valid
	u.RawQuery = r.query.Encode()
	return u.String()
}

// call makes the request and decodes the JSON answer into answer, if that is not nil.
func (c *Client) call(ctx context.Context, r request, answer any) error {
	limited := ctx
	if r.limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, r.limit, fmt.Errorf("no answer within %s", r.limit))
		defer cancel()
	}
	response, err := c.open(limited, r)
	if err != nil {
		return c.failure(ctx, limited, r.doing, err)
	}
	defer response.Body.Close()
	if answer == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)) // so that the connection can be used again
		return nil
	}
	body, err := readDocument(response.Body)
	if err != nil {
		return c.failure(ctx, limited, r.doing, err)
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return c.notRay(r.doing, response.StatusCode, body)
	}
	return nil
}

// open makes the request and returns an answer with status 200, whose body the caller closes. Its errors are *APIError of
// the server, or raw ones of the connection, for which failure makes a sentence.
func (c *Client) open(ctx context.Context, r request) (*http.Response, error) {
	response, err := c.roundTrip(ctx, r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // the status alone suffices
	return nil, c.apiError(r.doing, response, text)
}

func (c *Client) roundTrip(ctx context.Context, r request) (*http.Response, error) {
	if r.once {
		ctx = context.WithValue(ctx, onceKey{}, true)
	}
	if r.stream {
		ctx = context.WithValue(ctx, streamKey{}, true)
	}
	body, contentType := r.body, "application/octet-stream"
	if _, stream := body.(retryablehttp.ReaderFunc); !stream && body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		body, contentType = encoded, "application/json"
	}
	httpRequest, err := retryablehttp.NewRequestWithContext(ctx, cmp.Or(r.method, http.MethodGet), c.endpoint(r), body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		httpRequest.Header.Set("Content-Type", contentType)
	}
	return c.http.Do(httpRequest)
}

// failure makes a sentence of a connection error. The caller's own cancellation is returned unchanged.
func (c *Client) failure(ctx, limited context.Context, doing string, err error) error {
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("%s: %w", doing, cause)
	}
	var answered *APIError
	if errors.As(err, &answered) {
		return err
	}
	var token *tokenFileError
	if errors.As(err, &token) {
		return fmt.Errorf("%s: %w", doing, token)
	}
	if limited.Err() != nil {
		err = context.Cause(limited)
	}
	var wrapped *url.Error
	for errors.As(err, &wrapped) {
		err = wrapped.Err // drops method and URL, which the sentence has already
	}
	return &unreachableError{doing: doing, url: c.named(), cause: err, hint: c.trustHint(err)}
}
