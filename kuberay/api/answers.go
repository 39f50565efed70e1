package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher/sleep"
)

// answerTries bounds how often one request is sent because its answer broke off, or because the API server was busy when it was sent again.
const answerTries = 5

// wholeAnswers is a transport that sends a request again when the connection ends within its answer: proxies before an API server do that
// now and then (Go's ReverseProxy: golang/go#40747), and client-go does not try again after the first byte of an answer. Reads and changes
// are sent again as they are: our patches and deletions may be made twice. What was created is read. Streams are passed through.
func wholeAnswers(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if isStream(r) || r.Body != nil && r.GetBody == nil {
			return next.RoundTrip(r)
		}
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		broken := readWhole(response)
		if broken == nil || r.Context().Err() != nil {
			return response, nil
		}
		if r.Method == http.MethodPost && response.StatusCode < http.StatusMultipleChoices {
			return readCreated(next, r, response)
		}
		return askAgain(next, r, r.Method, r.URL.Path, response)
	})
}

// isStream reports whether an answer has no end of its own, or is too large to be held: watches, logs, and what goes on to a pod.
func isStream(r *http.Request) bool {
	q := r.URL.Query()
	watches := q.Get("watch") == "true" || q.Get("watch") == "1"
	return watches || q.Get("follow") != "" || r.Header.Get("Upgrade") != "" || strings.HasSuffix(r.URL.Path, "/log") || strings.Contains(r.URL.Path, "/proxy")
}

// readWhole replaces a response's body by all of its bytes; where the body breaks off, by its bytes and the error.
func readWhole(response *http.Response) error {
	content, err := io.ReadAll(response.Body)
	response.Body.Close()
	var body io.Reader = bytes.NewReader(content)
	if err != nil {
		body = io.MultiReader(body, failing{err})
	}
	response.Body = io.NopCloser(body)
	return err
}

// failing is a reader that has nothing but an error.
type failing struct{ error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.error }

// askAgain sends a request until there is a whole answer of an API server that is not busy, a few times. Without one it returns the answer before.
func askAgain(next http.RoundTripper, r *http.Request, method, urlPath string, before *http.Response) (*http.Response, error) {
	for range answerTries {
		again, err := another(r, method, urlPath)
		if err != nil {
			return before, nil
		}
		response, err := next.RoundTrip(again)
		if err != nil {
			return nil, err
		}
		broken := readWhole(response)
		busy := response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable
		if broken == nil && !busy {
			return response, nil
		}
		if busy && !sleep.For(r.Context(), retryAfter(response)) {
			break
		}
		before = response
	}
	return before, nil
}

// another is a request like r, which another transport has already sent.
func another(r *http.Request, method, urlPath string) (*http.Request, error) {
	out := r.Clone(r.Context())
	out.Method, out.URL.Path, out.URL.RawPath = method, urlPath, ""
	if method == http.MethodGet {
		out.Body, out.GetBody, out.ContentLength, out.URL.RawQuery = nil, nil, 0, ""
		return out, nil
	}
	if r.GetBody == nil {
		return out, nil
	}
	body, err := r.GetBody()
	out.Body = body
	return out, err
}

// retryAfter is the pause that a busy API server asks for.
func retryAfter(response *http.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil {
		seconds = 1
	}
	return time.Duration(seconds) * time.Second
}

// readCreated is the answer to a POST that the API server accepted and whose object was lost on the way. It is sent again: what leaves nothing behind (a dry
// run, a review) is answered; of what exists now the refusal names the object, which is read.
func readCreated(next http.RoundTripper, r *http.Request, lost *http.Response) (*http.Response, error) {
	inJSON := r.Clone(r.Context())
	inJSON.Header.Set("Accept", "application/json")
	response, err := askAgain(next, inJSON, http.MethodPost, r.URL.Path, lost)
	if err != nil || response.StatusCode != http.StatusConflict {
		return response, err
	}
	content, err := io.ReadAll(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(content))
	var refusal metav1.Status
	if err != nil || json.Unmarshal(content, &refusal) != nil || refusal.Reason != metav1.StatusReasonAlreadyExists || refusal.Details == nil || refusal.Details.Name == "" {
		return response, nil
	}
	found, err := askAgain(next, inJSON, http.MethodGet, path.Join(r.URL.Path, refusal.Details.Name), response)
	if err == nil && found.StatusCode == http.StatusOK {
		found.StatusCode, found.Status = http.StatusCreated, cmp.Or(lost.Status, "201 Created")
	}
	return found, err
}
