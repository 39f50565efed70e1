package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// REST implements Controller with slurmrestd (https://slurm.schedmd.com/rest_api.html). The token is read for each request and goes into its header
// only.
type REST struct {
	url       string // http://host:6820
	tokenFile string // "": SLURM_JWT
	http      *retryablehttp.Client

	mu  sync.Mutex
	api string // version, once found
}

// NewREST makes a client; it does not connect. An empty token file means the variable SLURM_JWT.
func NewREST(url, tokenFile string) *REST {
	c := retryablehttp.NewClient()
	c.Logger = nil
	c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = 3, 100*time.Millisecond, time.Second
	c.CheckRetry = mayRetry
	c.Backoff = backoff
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	c.HTTPClient.Timeout = commandTime
	// A redirect elsewhere would be given the token.
	c.HTTPClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &REST{url: strings.TrimRight(url, "/"), tokenFile: tokenFile, http: c}
}

func (r *REST) String() string { return r.url }

// mayRetry repeats requests that certainly did not reach the server, and reads that were cut. Never a 500, by which slurmrestd refuses.
func mayRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true, nil
	}
	if err != nil {
		return ctx.Value(isQuestion{}) != nil && !errors.Is(err, context.DeadlineExceeded), nil
	}
	return resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests, nil
}

// longestWait is how long slurmrestd, or a proxy before it, may make us wait before a repetition.
const longestWait = 10 * time.Second

// backoff obeys an answer's Retry-After within bounds.
func backoff(least, most time.Duration, attempt int, resp *http.Response) time.Duration {
	return min(retryablehttp.DefaultBackoff(least, most, attempt, resp), longestWait)
}

// isQuestion marks the context of requests that change nothing.
type isQuestion struct{}

// API versions in the order they are tried. Each is the newest of some release; all releases from 22.05 to 26.11 have one of them.
const (
	v45 = "v0.0.45" // 26.05
	v42 = "v0.0.42" // 24.11
	v40 = "v0.0.40" // 23.11
	v38 = "v0.0.38" // 22.05: other fields, no slashes at the end
)

// find returns the API's version: the first that slurmrestd has.
func (r *REST) find(ctx context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range []string{v45, v42, v40, v38} {
		if r.api != "" {
			break
		}
		status, _, err := r.send(ctx, http.MethodGet, "/slurm/"+v+"/ping"+slash(v), nil)
		if err != nil && status != http.StatusNotFound {
			return "", err
		}
		if err == nil {
			r.api = v
		}
	}
	if r.api == "" {
		return "", launcher.Fail(runstate.CodeConfig, nil, "check slurm.restUrl, or use ssh (slurm.host)", "%s has none of the versions of slurmrestd's API that rayctl knows (22.05 to 26.11)", r.url)
	}
	return r.api, nil
}

func slash(version string) string {
	if version == v38 {
		return ""
	}
	return "/"
}

// call requests a path below the API's version.
func (r *REST) call(ctx context.Context, method, path string, request any) (answer []byte, err error) {
	version, err := r.find(ctx)
	if err != nil {
		return nil, err
	}
	_, answer, err = r.send(ctx, method, "/slurm/"+version+path, request)
	return answer, err
}

// answerSize bounds one answer: a big site's jobs are some tens of megabytes.
const answerSize = 256 << 20

// send sends one request. The error of an answer other than 2xx has Slurm's words.
func (r *REST) send(ctx context.Context, method, path string, request any) (status int, answer []byte, err error) {
	t, err := readToken(r.tokenFile)
	if err != nil {
		return 0, nil, err
	}
	var body any
	if request != nil {
		text, err := json.Marshal(request)
		if err != nil {
			return 0, nil, fmt.Errorf("encode a request to slurmrestd: %w", err)
		}
		body = text
	}
	if method == http.MethodGet {
		ctx = context.WithValue(ctx, isQuestion{}, true)
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, method, r.url+path, body)
	if err != nil {
		return 0, nil, launcher.Fail(runstate.CodeConfig, err, "correct slurm.restUrl", "%s is not a URL of slurmrestd", r.url)
	}
	req.Header.Set("X-SLURM-USER-NAME", t.user) // 22.05 needs both headers
	req.Header.Set("X-SLURM-USER-TOKEN", t.text)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return 0, nil, &CommandError{name: "slurmrestd", Err: errors.Join(errAway, errors.Unwrap(err))} // another part of the message has the URL
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(io.LimitReader(resp.Body, answerSize+1)); err != nil {
		return resp.StatusCode, nil, &CommandError{name: "slurmrestd", Err: errors.Join(errAway, err)}
	}
	if len(answer) > answerSize {
		return resp.StatusCode, nil, launcher.Fail(runstate.CodeUnreachable, nil, "check slurm.restUrl", "the answer of %s is too long: it has more than %d MiB", r.url, answerSize>>20)
	}
	if resp.StatusCode/100 == 2 {
		return resp.StatusCode, answer, nil
	}
	return resp.StatusCode, answer, r.refusal(resp.StatusCode, answer)
}

// restError is one of slurmrestd's errors. 22.05 has the number in error_code in its answers to submissions.
type restError struct {
	Description string `json:"description"`
	Error       string `json:"error"`
	Number      int    `json:"error_number"`
	Code        int    `json:"error_code"`
}

// Numbers of slurm/slurm_errno.h.
const (
	errnoUnspecified = -1
	errnoAuth        = 1007
	errnoParsing     = 9001 // of 22.05's own
	errnoInvalidJob  = 2017
	errnoFinished    = 2021
	errnoNotWaiting  = 2172
)

// refusal puts an answer that is not 2xx into an error.
func (r *REST) refusal(status int, answer []byte) error {
	var doc struct {
		Errors []restError `json:"errors"`
	}
	said, number := "", 0
	if json.Unmarshal(answer, &doc) == nil {
		for _, e := range slices.Backward(doc.Errors) { // the first is the cause
			number = cmp.Or(e.Number, e.Code)
			if said = e.Error; said == "" || number == errnoUnspecified || number == errnoParsing {
				said = strings.Trim(e.Description+": "+e.Error, ": ")
			}
		}
	}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNetworkAuthenticationRequired || number == errnoAuth:
		return launcher.Fail(runstate.CodePermission, nil, "`scontrol token` on a login node makes another", "slurmrestd at %s does not accept the token", r.url)
	case said == "":
		said = fmt.Sprintf("slurmrestd answers %d %s", status, http.StatusText(status))
	}
	failed := &CommandError{name: "slurmrestd", Said: said, Err: fmt.Errorf("HTTP status %d", status)}
	// 22.05 does not distinguish a controller that does not answer from a wrong token.
	if status >= http.StatusBadGateway || number == errnoUnspecified && status == http.StatusInternalServerError {
		failed.Err = errors.Join(errAway, failed.Err)
	}
	return failed
}
