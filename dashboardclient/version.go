package dashboardclient

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// VersionInfo is the answer of /api/version.
type VersionInfo struct {
	// APIVersion is the version of the job API, "4" in all supported versions.
	APIVersion string `json:"version"`
	// RayVersion is Ray's version, "2.60.0".
	RayVersion string `json:"ray_version"`
	// RayCommit is the commit Ray was built from.
	RayCommit string `json:"ray_commit"`
	// SessionName changes with every start of the head. It is empty in Ray 2.9.3, which does not report it.
	SessionName string `json:"session_name,omitempty"`
}

// AuthMode is the dashboard's authentication of clients.
type AuthMode string

// Modes of authentication.
const (
	AuthDisabled AuthMode = "disabled"
	AuthToken    AuthMode = "token"
)

// pollTimeout limits each request while waiting for something: a dashboard that is starting accepts
// connections that it never answers.
const pollTimeout = 2 * time.Second

// Version reports the versions of Ray and its API. It needs the token if the cluster has one.
func (c *Client) Version(ctx context.Context) (VersionInfo, error) {
	return c.askVersion(ctx, request{doing: "ask for Ray's version"})
}

func (c *Client) askVersion(ctx context.Context, r request) (VersionInfo, error) {
	r.path = []string{"api", "version"}
	var info VersionInfo
	if err := c.call(ctx, r, &info); err != nil {
		return VersionInfo{}, err
	}
	if info.RayVersion == "" {
		return VersionInfo{}, c.notRay(r.doing, 200, []byte("no ray_version"))
	}
	c.versionMutex.Lock()
	c.version = info
	c.versionMutex.Unlock()
	return info, nil
}

// knownVersion is Version with a cache: a cluster does not change its version under one client.
func (c *Client) knownVersion(ctx context.Context) (VersionInfo, error) {
	c.versionMutex.Lock()
	info := c.version
	c.versionMutex.Unlock()
	if info.RayVersion != "" {
		return info, nil
	}
	return c.Version(ctx)
}

// AuthMode reports whether the dashboard requires a token. It needs no token itself. Versions before 2.52 have no authentication: AuthDisabled.
func (c *Client) AuthMode(ctx context.Context) (AuthMode, error) {
	var answer struct {
		Mode AuthMode `json:"authentication_mode"`
	}
	err := c.call(ctx, request{doing: "ask for the authentication mode", path: []string{"api", "authentication_mode"}}, &answer)
	if errors.Is(err, ErrNotFound) {
		return AuthDisabled, nil
	}
	return answer.Mode, err
}

// WaitReady polls until the dashboard reports its version, and returns it. It ends early only with ctx, or when the
// dashboard refuses the token (ErrUnauthorized) or TokenFile cannot be read. A starting dashboard listens before it answers, and is polled again.
func (c *Client) WaitReady(ctx context.Context) (VersionInfo, error) {
	var info VersionInfo
	err := c.pollReady(ctx, "wait for the dashboard", func(r request) (bool, error) {
		var err error
		info, err = c.askVersion(ctx, r)
		return err == nil, err
	})
	return info, err
}

// pollReady polls a dashboard that may be starting, until ask reports done. It fails with ctx, with the last cause, or
// when the token is refused.
func (c *Client) pollReady(ctx context.Context, doing string, ask func(request) (done bool, err error)) error {
	var last error
	err := pollUntil(ctx, steady(100*time.Millisecond), func() (bool, error) {
		done, err := ask(request{doing: doing, once: true, limit: pollTimeout})
		if err != nil && ctx.Err() == nil {
			last = err
		}
		var token *tokenFileError
		if errors.Is(err, ErrUnauthorized) || errors.As(err, &token) {
			return false, err
		}
		return done, nil
	})
	if err != nil && last != nil && !errors.Is(err, last) {
		return fmt.Errorf("%w (%w)", last, err)
	}
	return err
}

// AtLeast compares the first two numbers of a Ray version ("2.40.0", "3.0.0.dev0").
func (v VersionInfo) AtLeast(major, minor int) bool {
	parts := strings.SplitN(v.RayVersion, ".", 3)
	if len(parts) < 2 {
		return true
	}
	gotMajor, err1 := strconv.Atoi(parts[0])
	gotMinor, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil {
		return true // a development version: newer than those with missing features
	}
	return gotMajor > major || gotMajor == major && gotMinor >= minor
}
