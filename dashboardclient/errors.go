package dashboardclient

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Kinds of failure, for errors.Is.
var (
	// ErrUnauthorized: the dashboard requires a token and got none (401) or a wrong one (403).
	ErrUnauthorized = errors.New("not authorized")
	// ErrNotFound: the job, package or log file does not exist on this cluster.
	ErrNotFound = errors.New("not found")
	// ErrConflict: another job has this submission id.
	ErrConflict = errors.New("conflict")
	// ErrUnreachable: the dashboard gave no answer: it is down, the address is wrong, or the connection broke.
	ErrUnreachable = errors.New("unreachable")
	// ErrUnsupported: this version of Ray does not support the request.
	ErrUnsupported = errors.New("unsupported")
	// ErrInvalid: Ray does not accept the configuration that was given; the message names the key.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge: the package is larger than what Ray stores.
	ErrTooLarge = errors.New("too large")
)

// APIError is an error response of a dashboard, with its message reduced to one line.
type APIError struct {
	// Doing is the attempted action, as in "submit job raysubmit_1".
	Doing string
	// Status is the HTTP status code.
	Status int
	// Message is the most useful line of the server's answer: the last line of a traceback, or the text itself.
	Message string

	kind error
	// exception is the class of the Python exception behind the answer, if it was a traceback.
	exception string
}

func (e *APIError) Error() string { return e.Doing + ": " + e.Message }

// Is matches the kind of failure.
func (e *APIError) Is(target error) bool { return e.kind != nil && e.kind == target }

// UnsupportedError is the error of a feature that this version of Ray does not have. It matches ErrUnsupported.
type UnsupportedError struct {
	// Feature is the requested feature, as in "node labels".
	Feature string
	// RayVersion is the dashboard's version.
	RayVersion string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("Ray %s has no %s: a newer Ray is needed on the cluster", e.RayVersion, e.Feature)
}

// Is matches ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// unreachableError matches ErrUnreachable and unwraps to the connection's error.
type unreachableError struct {
	doing, url, hint string
	cause            error
}

func (e *unreachableError) Error() string {
	text := fmt.Sprintf("%s: no answer from the Ray dashboard at %s: %v", e.doing, e.url, e.cause)
	if e.hint != "" {
		text += ": " + e.hint
	}
	return text
}

func (e *unreachableError) Unwrap() []error { return []error{ErrUnreachable, e.cause} }

// trustHint is the next step for a certificate that is not trusted; "" for other errors, and where somebody else makes the connections.
func (c *Client) trustHint(err error) string {
	var untrusted *tls.CertificateVerificationError
	if !errors.As(err, &untrusted) || c.config.Transport != nil || c.config.DialContext != nil {
		return ""
	}
	return "give the certificate of its authority with --verify FILE"
}

// apiError turns a response with a status other than 200 into an error.
func (c *Client) apiError(doing string, response *http.Response, body []byte) error {
	e := &APIError{Doing: doing, Status: response.StatusCode}
	switch response.StatusCode {
	case http.StatusUnauthorized:
		e.kind, e.Message = ErrUnauthorized, "the dashboard at "+c.URL()+" requires a token, and none was given"
		if c.gaveToken(response) { // Ray answers 403 to a wrong one
			e.Message = "what answers at " + c.URL() + " does not accept the token that was given: it is another cluster's token, or a proxy in front of the dashboard needs other credentials"
		}
	case http.StatusForbidden:
		e.kind, e.Message = ErrUnauthorized, "the dashboard at "+c.URL()+" refused the token: it is not this cluster's"
		if said := kubernetes(body); said != "" {
			e.Message = "not permitted: " + said
		}
	case http.StatusNotFound:
		_, line := summarize(string(body))
		e.kind, e.Message = ErrNotFound, "not found: "+line
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		e.Message = fmt.Sprintf("%s is not a Ray dashboard: it redirects to %s", c.URL(), response.Header.Get("Location"))
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		_, line := summarize(string(body))
		e.Message = "the dashboard is busy: it answered " + response.Status
		if after := response.Header.Get("Retry-After"); after != "" {
			e.Message += ", with Retry-After: " + shorten(after, 40) + " (seconds, or a time)"
		}
		if line != "" {
			e.Message += ": " + line
		}
	default:
		e.exception, e.Message = summarize(string(body))
		if wrong := pydanticErrors(string(body)); len(wrong) > 0 {
			e.Message = strings.Join(wrong, "; ")
		}
		if e.Message == "" || strings.HasPrefix(e.Message, "500 ") { // aiohttp's answer to an uncaught exception
			e.Message = "the dashboard answered " + response.Status
		}
	}
	return e
}

// gaveToken reports whether the answered request carried a token.
func (c *Client) gaveToken(response *http.Response) bool {
	return response.Request != nil && response.Request.Header.Get(c.config.TokenHeader) != ""
}

// kubernetes is the message of the Kubernetes API server, if the dashboard is reached through its proxy of Services.
func kubernetes(body []byte) string {
	var status struct{ Kind, Message string }
	if json.Unmarshal(body, &status) != nil || status.Kind != "Status" {
		return ""
	}
	return status.Message
}

// notRay is the error of a server that is not a Ray dashboard.
func (c *Client) notRay(doing string, status int, body []byte) error {
	_, line := summarize(string(body))
	return &APIError{Doing: doing, Status: status,
		Message: fmt.Sprintf("what answers at %s is not a Ray dashboard: it answered %q", c.URL(), shorten(line, 80))}
}

// exceptionLine is the line of a Python traceback that names the exception: "ValueError: Job with ...", "ray.exceptions.X: ...".
var exceptionLine = regexp.MustCompile(`^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*(?:Error|Exception|Timeout|Unavailable|Interrupt|Exit)\w*): (.+)$`)

// summarize reduces a server's answer to one line: the message of a traceback's last exception (and its class), the message of
// Ray's JSON envelope, the title of an HTML page, or the first line of any other text.
func summarize(text string) (exception, line string) {
	text = strings.TrimSpace(text)
	var envelope struct{ Msg, Message, Detail, Error string }
	if json.Unmarshal([]byte(text), &envelope) == nil {
		if message := cmp.Or(envelope.Msg, envelope.Message, envelope.Detail, envelope.Error); message != "" {
			return summarize(message)
		}
	}
	if title := htmlTitle.FindStringSubmatch(text); title != nil {
		return "", shorten(strings.TrimSpace(title[1]), 300)
	}
	lines := strings.Split(text, "\n")
	for i, line := range slices.Backward(lines) {
		if match := exceptionLine.FindStringSubmatch(strings.TrimSpace(line)); match != nil {
			return match[1], shorten(match[2]+details(match[1], lines[i+1:]), 500)
		}
	}
	return "", shorten(strings.TrimSpace(lines[0]), 500)
}

// details are the lines after the first of pydantic's errors, the first of which only has their number, and why an actor, such as Serve's controller, has died
// (ray/exceptions.py, ActorDiedError).
func details(exception string, rest []string) string {
	text := ""
	if exception != "ValidationError" {
		for _, line := range rest {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "The actor is dead because ") {
				return " " + line
			}
		}
		return ""
	}
	for _, line := range rest[:min(2, len(rest))] {
		text += ": " + strings.TrimSpace(line)
	}
	return text
}

var htmlTitle = regexp.MustCompile(`(?is)^<!?(?:doctype|html).*?<title>(.*?)</title>`)

// shorten cuts a text to at most n bytes and marks the cut.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "..."
}
