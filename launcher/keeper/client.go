package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/rayctl/rayctl/dashboardclient/proven"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Endpoint describes how a keeper's API is reached.
type Endpoint struct {
	URL         string // http://host:port
	Token       string
	TokenHeader string                                                               // "" is Authorization
	DialContext func(ctx context.Context, network, address string) (net.Conn, error) // nil: proven.Dial
}

// Error is an error response of the keeper.
type Error struct {
	Status  int    // HTTP status code
	Message string // one sentence
}

func (e *Error) Error() string { return "the keeper refuses: " + e.Message }

// Refusal is the sentence of a keeper that does not do what it was asked for as the cluster is now (status 409); false: err is something else.
func Refusal(err error) (string, bool) {
	var refused *Error
	if !errors.As(err, &refused) || refused.Status != http.StatusConflict {
		return "", false
	}
	return refused.Message, true
}

// Is makes a 404 an ErrNotFound.
func (e *Error) Is(target error) bool {
	return target == ErrNotFound && e.Status == http.StatusNotFound
}

// ErrNotFound means that the keeper does not have the requested object.
var ErrNotFound = errors.New("not found")

// ErrNotPermitted means that an intermediary, such as the proxy of Services in Kubernetes, did not pass the request on.
var ErrNotPermitted = errors.New("not permitted")

// Client is a client of the keeper's HTTP API. It is safe for concurrent use.
type Client struct {
	endpoint Endpoint
	http     *http.Client
}

// dialTimeout limits a connection, until the keeper has accepted it.
const dialTimeout = 5 * time.Second

// callTimeout limits calls that the keeper answers at once.
const callTimeout = 10 * time.Second

// longestState bounds a state document, in bytes. It is enough for thousands of nodes and all of their events. Only tests change it.
var longestState int64 = 64 << 20

// NewClient makes a client; it does not connect.
func NewClient(e Endpoint) *Client {
	e.URL = strings.TrimRight(e.URL, "/")
	if e.TokenHeader == "" {
		e.TokenHeader = "Authorization"
	}
	transport := &http.Transport{DialContext: e.DialContext, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute}
	if e.DialContext == nil {
		transport.DialContext = proven.Dial(dialTimeout)
	}
	return &Client{endpoint: e, http: &http.Client{
		Transport: transport,
		// A keeper redirects nowhere: whoever does listens in its place, and would get the token and what the request says.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close releases idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) state(ctx context.Context, method, path string, body any, timeout time.Duration) (*runstate.State, error) {
	state := &runstate.State{}
	if err := c.call(ctx, method, path, body, timeout, state); err != nil {
		return nil, err
	}
	return state, nil
}

// call sends a document and decodes the answer.
func (c *Client) call(ctx context.Context, method, path string, body any, timeout time.Duration, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode a request to the keeper: %w", err)
		}
		reader = bytes.NewReader(text)
	}
	request, err := c.request(ctx, method, path, reader)
	if err != nil {
		return err
	}
	response, err := c.do(request)
	if err != nil {
		return fmt.Errorf("reach the keeper: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, longestState+1))
	if err == nil && int64(len(text)) > longestState {
		err = fmt.Errorf("it is too long: it has more than %d MiB", longestState>>20)
	}
	if err == nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil {
		return fmt.Errorf("read the keeper's answer: %w", err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.endpoint.URL+path, body)
	if err != nil {
		return nil, fmt.Errorf("make a request to the keeper: %w", err)
	}
	request.Header.Set(c.endpoint.TokenHeader, "Bearer "+c.endpoint.Token)
	return request, nil
}

// do sends a request and turns answers other than 200 into an *Error.
func (c *Client) do(request *http.Request) (*http.Response, error) {
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	if to := response.Header.Get("Location"); to != "" {
		return nil, fmt.Errorf("at its address something else answers, with a redirect to %s", to)
	}
	var answer struct {
		Error         string `json:"error"`
		Kind, Message string // fields of a Kubernetes Status
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	err = errors.Join(err, json.Unmarshal(text, &answer))
	if response.StatusCode == http.StatusForbidden && answer.Kind == "Status" {
		return nil, fmt.Errorf("%w: %s", ErrNotPermitted, answer.Message)
	}
	if err != nil || answer.Error == "" {
		answer.Error = response.Status
	}
	return nil, &Error{Status: response.StatusCode, Message: answer.Error}
}
