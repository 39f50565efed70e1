package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rayctl/rayctl/kuberay/transport"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Explain turns an error of the API server into one sentence with a next step and an exit code. The original stays inside for
// apierrors.Is... and errors.Is.
func Explain(err error, verb, resource string, c *Client) error {
	var known *launcher.ExitError
	if err == nil || errors.As(err, &known) {
		return err
	}
	where := "namespace " + c.Namespace
	text := cause(err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && !isNet(err):
		return launcher.Fail(runstate.CodeInterrupted, err, "", "interrupted while Kubernetes was asked to %s %s", verb, resource)
	case apierrors.IsUnauthorized(err):
		return launcher.Fail(runstate.CodePermission, err, "log in again (`kubectl auth whoami` should work)", "Kubernetes does not accept the credentials for %s %s: they are missing, wrong or expired", verb, resource)
	case OutOfQuota(err):
		return launcher.Fail(runstate.CodeStartFailed, err, "free some of it, or ask for a larger quota", "%s is refused: %s", resource, text)
	case apierrors.IsForbidden(err) && strings.Contains(text, "because it is being terminated"):
		return launcher.Fail(runstate.CodeStartFailed, err, "choose another namespace", "the %s is being deleted", where)
	case DenialOf(text) != nil:
		return launcher.Fail(runstate.CodePermission, err, DenialOf(text).hintFor(resource), "creating %s in %s is not permitted: %s", resource, where, OneLine(text))
	case apierrors.IsForbidden(err):
		return launcher.Fail(runstate.CodePermission, err, transport.RoleHint, "not permitted to %s %s in %s: %s", verb, resource, where, text)
	case apierrors.IsNotFound(err) && strings.Contains(text, "namespaces"):
		return launcher.Fail(runstate.CodeConfig, err, "create it, or set kuberay.namespace", "there is no %s", where)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		hint := "compare `rayctl render` with the fields that the cluster's version has"
		if strings.Contains(text, "unknown field") {
			hint = "the field is mistyped, or the CRD on the cluster is older than that: correct it, upgrade KubeRay, or leave it out"
		}
		return launcher.Fail(runstate.CodeSpec, err, hint, "Kubernetes refuses the %s: %s", resource, text)
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsInternalError(err):
		return launcher.Fail(runstate.CodeUnreachable, err, "try again", "Kubernetes cannot %s %s now: %s", verb, resource, text)
	case isNet(err), answerLost(err):
		return launcher.Fail(runstate.CodeUnreachable, err, "check the network, and kuberay.context", "the Kubernetes at %s does not answer: %s", c.Config.Host, text)
	default:
		return launcher.Fail(runstate.CodeUnreachable, err, "try it again, and ask its administrators if that does not help", "Kubernetes could not %s %s: %s", verb, resource, text)
	}
}

// cause is the API server's own sentence.
func cause(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Message != "" {
		return status.Status().Message
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err.Error()
	}
	return err.Error()
}

// OutOfQuota reports whether err is a refusal because a quota has no room for the object now.
func OutOfQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(cause(err), "exceeded quota")
}

func isNet(err error) bool {
	var n net.Error
	var u *url.Error
	return errors.As(err, &n) || errors.As(err, &u)
}

// answerLost reports whether the connection failed while the API server's answer was read: the request may have been carried out.
// (rest.Request.transformResponse of client-go 0.35 wraps what reading a body returns, which is no net.Error.)
func answerLost(err error) bool {
	return err != nil && (errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "error when reading response body"))
}

// Retryable are refusals that a later request may not get.
func Retryable(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTimeout(err) || apierrors.IsInternalError(err) || isNet(err)
}

// Passes reports whether the error is temporary, so that a request that may be made twice should be made again.
func Passes(err error) bool { return Retryable(err) || answerLost(err) }

// NotReady is the error for a target of a cluster that does not answer yet.
func NotReady(name, what string, why error) error {
	text := ""
	if why != nil {
		text = ": " + why.Error()
	}
	return launcher.Fail(runstate.CodeUnreachable, errors.Join(launcher.ErrNotReady, why), "`rayctl status "+name+"` shows what it waits for",
		"the %s of %s does not answer yet%s", what, name, text)
}

func foreign(kind, name string) error {
	return launcher.Fail(runstate.CodeSpec, launcher.ErrConflict, "choose another name", "a %s named %s exists that rayctl did not make", kind, fmt.Sprintf("%q", name))
}

// QueueTimeout is the error of a launch that was not admitted within lifetime.queue. Before there is a keeper, the client counts that time. hint may be empty
// where nothing but time helps.
func QueueTimeout(name, what string, queue time.Duration, why, hint string) error {
	if why != "" {
		why = ": " + why
	}
	return launcher.Fail(runstate.CodeQueueTimeout, nil, cmp.Or(hint, "launch it again later, or raise lifetime.queue"), "%s %s within lifetime.queue (%s)%s", name, what, launcher.Human(queue.Seconds()), why)
}
