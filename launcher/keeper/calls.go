package keeper

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// longPoll is how long the keeper may hold a Watch request while nothing changes.
const longPoll = 25 * time.Second

// State returns the state document.
func (c *Client) State(ctx context.Context) (*runstate.State, error) {
	return c.state(ctx, http.MethodGet, "/v1/state", nil, callTimeout)
}

// Next returns the state document as soon as its revision is greater than after, or the unchanged document after longPoll.
func (c *Client) Next(ctx context.Context, after int64) (*runstate.State, error) {
	query := url.Values{"after": {strconv.FormatInt(after, 10)}, "timeout": {strconv.Itoa(int(longPoll.Seconds()))}}
	return c.state(ctx, http.MethodGet, "/v1/state?"+query.Encode(), nil, longPoll+callTimeout)
}

// Watch yields the state document at once and then at each change. It also yields the errors of single requests and then continues,
// with growing pauses of 0.1 to 2 seconds. It ends after the final document (with Exit) and when ctx ends. A keeper that has
// exited cannot report this: a caller that gets errors must query the substrate and stop.
func (c *Client) Watch(ctx context.Context) iter.Seq2[*runstate.State, error] {
	return func(yield func(*runstate.State, error) bool) {
		after, pause := int64(-1), 100*time.Millisecond
		for ctx.Err() == nil {
			state, err := c.Next(ctx, after)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !yield(nil, err) || !sleep.For(ctx, pause) {
					return
				}
				pause = min(2*pause, 2*time.Second)
				continue
			case state.Revision != after:
				// A restarted keeper counts from the beginning, so any different revision is a change.
				if !yield(state, nil) || state.Exit != nil {
					return
				}
				after = state.Revision
			}
			pause = 100 * time.Millisecond
		}
	}
}

// PutPackage uploads a package of the job to the keeper; name is that of Package.File.
func (c *Client) PutPackage(ctx context.Context, name string, size int64, body io.Reader) error {
	request, err := c.request(ctx, http.MethodPut, "/v1/packages/"+url.PathEscape(name), body)
	if err != nil {
		return err
	}
	request.ContentLength = size
	response, err := c.do(request)
	if err != nil {
		return fmt.Errorf("send package %s to the keeper: %w", name, err)
	}
	return response.Body.Close()
}

// Commit completes the client's part of the launch. The same commit may be repeated; a different one returns an *Error with
// status 409.
func (c *Client) Commit(ctx context.Context, commit Commit) (*runstate.State, error) {
	return c.state(ctx, http.MethodPost, "/v1/commit", commit, callTimeout)
}

// Renew reports to the keeper that the client is alive.
func (c *Client) Renew(ctx context.Context) error {
	_, err := c.state(ctx, http.MethodPost, "/v1/renew", struct{}{}, callTimeout)
	return err
}

// End asks the keeper to end the cluster; the keeper answers before it has done so.
func (c *Client) End(ctx context.Context, end End) (*runstate.State, error) {
	return c.state(ctx, http.MethodPost, "/v1/end", end, callTimeout)
}

// Extend changes the cluster's limits.
func (c *Client) Extend(ctx context.Context, extend Extend) (*runstate.State, error) {
	return c.state(ctx, http.MethodPost, "/v1/extend", extend, callTimeout)
}

// Scale sets how many nodes of an elastic group there are at least and at most (nil: as it is).
type Scale struct {
	Group string `json:"group"`
	Min   int    `json:"min"`
	Max   *int   `json:"max"`
}

// Scale changes the sizes of elastic groups, all of them or none. If that is refused, the error is an *Error with status 409 and the reason.
func (c *Client) Scale(ctx context.Context, sizes ...Scale) (*runstate.State, error) {
	body := struct {
		Sizes []Scale `json:"sizes"`
		*Scale
	}{Sizes: sizes}
	if len(sizes) == 1 { // a keeper of a rayctl before sizes reads this
		body.Scale = &sizes[0]
	}
	return c.state(ctx, http.MethodPost, "/v1/scale", body, callTimeout)
}

// Change has the cluster take a changed file, all of it or nothing. If that is refused, the error is an *Error with status 409 and the reason.
func (c *Client) Change(ctx context.Context, change Change) (*runstate.State, error) {
	return c.state(ctx, http.MethodPost, "/v1/change", change, callTimeout)
}

// Offer is a submission of jobs for nodes that the keeper's node may not make: a client makes it, and reports what came of it.
type Offer struct {
	ID   string   `json:"id"`
	Argv []string `json:"argv"` // of sbatch
}

// OfferReport is what came of an Offer; the zero value reports nothing.
type OfferReport struct {
	ID    string `json:"id,omitempty"`
	Job   string `json:"job,omitempty"`   // the number of the job or of the array
	Error string `json:"error,omitempty"` // why there is none
}

// TakeOffer reports what came of the last offer, and takes the next one; nil: there is none. It is nobody else's for 90 seconds. over: the cluster has ended,
// and nothing was reported.
func (c *Client) TakeOffer(ctx context.Context, r OfferReport) (o *Offer, over bool, err error) {
	var answer struct {
		Offer *Offer         `json:"offer"`
		Exit  *runstate.Exit `json:"exit"` // of a State
	}
	err = c.call(ctx, http.MethodPost, "/v1/offers", struct {
		OfferReport
		Take bool `json:"take"`
	}{r, true}, callTimeout, &answer)
	return answer.Offer, answer.Exit != nil, err
}

// Disconnect makes the keeper end the cluster when it gets no Renew for this long; 0 disables this.
func (c *Client) Disconnect(ctx context.Context, after time.Duration) (*runstate.State, error) {
	return c.state(ctx, http.MethodPost, "/v1/disconnect", map[string]float64{"after": after.Seconds()}, callTimeout)
}

// Fetch tells the keeper that this client copies the output directory, or, with done, that it has: until then the keeper holds the end of the cluster (docs/keeper.md, "Fetch").
func (c *Client) Fetch(ctx context.Context, done bool) (*runstate.State, error) {
	return c.state(ctx, http.MethodPost, "/v1/fetch", map[string]bool{"done": done}, callTimeout)
}

// ChoosePort returns a port of an address of the keeper's host for a server of the cluster: wanted, or a free one if that is 0. If something listens on
// wanted, the error is an *Error with status 409.
func (c *Client) ChoosePort(ctx context.Context, host string, wanted int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	query := url.Values{"host": {host}, "port": {strconv.Itoa(wanted)}}
	request, err := c.request(ctx, http.MethodGet, "/v1/port?"+query.Encode(), nil)
	if err != nil {
		return 0, err
	}
	response, err := c.do(request)
	if err != nil {
		return 0, fmt.Errorf("ask the keeper for a port: %w", err)
	}
	defer response.Body.Close()
	var answer struct{ Port int }
	if err := json.NewDecoder(io.LimitReader(response.Body, 64<<10)).Decode(&answer); err != nil {
		return 0, fmt.Errorf("read the keeper's answer: %w", err)
	}
	return answer.Port, nil
}

// Log opens the keeper's copy of an attempt's output (0: the last attempt's) at a byte offset. The reader ends where the copy ends now.
func (c *Client) Log(ctx context.Context, attempt int, offset int64) (io.ReadCloser, error) {
	response, err := c.openLog(ctx, attempt, offset, url.Values{})
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// LogSize is how many bytes the keeper's copy of an attempt's output has now.
func (c *Client) LogSize(ctx context.Context, attempt int) (int64, error) {
	response, err := c.openLog(ctx, attempt, 0, url.Values{})
	if err != nil {
		return 0, err
	}
	return max(0, response.ContentLength), response.Body.Close() // the rest of the answer is not read
}

// FollowLog is Log, and the reader goes on as the output grows, to its end: an attempt's, or job.prepare's alone. grows is false if the keeper is of an earlier
// rayctl, and the reader ends where the copy ends now. Ray's own lines are in it, as in Log.
func (c *Client) FollowLog(ctx context.Context, attempt int, offset int64, prepare bool) (log io.ReadCloser, grows bool, err error) {
	query := url.Values{"follow": {"1"}}
	if prepare {
		query.Set("prepare", "1")
	}
	response, err := c.openLog(ctx, attempt, offset, query)
	if err != nil {
		return nil, false, err
	}
	return response.Body, response.ContentLength < 0, nil
}

func (c *Client) openLog(ctx context.Context, attempt int, offset int64, query url.Values) (*http.Response, error) {
	query.Set("offset", strconv.FormatInt(offset, 10))
	query.Set("attempt", strconv.Itoa(attempt))
	request, err := c.request(ctx, http.MethodGet, "/v1/log?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	response, err := c.do(request)
	if err != nil {
		return nil, fmt.Errorf("read the driver's log from the keeper: %w", err)
	}
	return response, nil
}

// Recorded returns nil when the result and the driver's output are saved where they outlive the keeper's pod. On Kubernetes the record's pod saves them;
// if that takes longer than 20 seconds, or no record's pod is expected, Recorded returns an error.
func (c *Client) Recorded(ctx context.Context) error {
	request, err := c.request(ctx, http.MethodGet, "/v1/recorded", nil)
	if err != nil {
		return err
	}
	response, err := c.do(request)
	if err != nil {
		return fmt.Errorf("ask whether the result is recorded: %w", err)
	}
	return response.Body.Close()
}
