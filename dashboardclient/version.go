package dashboardclient

import "context"

// VersionInfo is the answer of /api/version.
type VersionInfo struct {
	// APIVersion is the version of the job API, "4" in all supported versions.
	APIVersion string `json:"version"`
	// RayVersion is Ray's version, "2.60.0".
	RayVersion string `json:"ray_version"`
	// RayCommit is the commit Ray was built from.
	RayCommit string `json:"ray_commit"`
	// SessionName changes whenever the head is started anew. It is empty in Ray 2.9.3, which does not report it.
	SessionName string `json:"session_name,omitempty"`
}

// AuthMode is the dashboard's way to authenticate clients.
type AuthMode string

// Modes of authentication.
const (
	AuthDisabled AuthMode = "disabled"
	AuthToken    AuthMode = "token"
)

// Version reports the versions of Ray and its API. It needs the token where the cluster has one.
func (c *Client) Version(ctx context.Context) (VersionInfo, error) { panic("later") }

// AuthMode reports whether the dashboard wants a token. It needs no token itself. Versions before 2.52 have no authentication: AuthDisabled.
func (c *Client) AuthMode(ctx context.Context) (AuthMode, error) { panic("later") }

// WaitReady asks for the version until the dashboard gives it, and returns it. It ends early only with ctx, or when the
// dashboard refuses the token (ErrUnauthorized); a dashboard that is starting listens before it answers and is asked again.
func (c *Client) WaitReady(ctx context.Context) (VersionInfo, error) { panic("later") }
