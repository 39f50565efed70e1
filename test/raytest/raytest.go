// Package raytest gives tests real Ray: it installs Ray versions into a cache and starts isolated heads.
package raytest

import (
	"testing"

	"github.com/rayctl/rayctl/dashboardclient"
)

// Versions of Ray that the tests know how to install.
const (
	Ray260 = "2.60.0"
	Ray240 = "2.40.0"
	Ray29  = "2.9.3"
)

// Env returns the Python of an environment with this version of Ray ([default,serve]). It installs it on first use, shared by all
// processes, under ${RAYCTL_TEST_CACHE:-$HOME/.cache/rayctl-test}. RAYCTL_TEST_RAY_2_60_0=DIR names an environment to use instead.
func Env(t testing.TB, version string) string { panic("later") }

// HeadOptions shapes a head.
type HeadOptions struct {
	// Version of Ray; empty: Ray260.
	Version string
	// NoToken starts it without token authentication, where the version has it.
	NoToken bool
	// CPUs of the node; 0: 2.
	CPUs int
	// Env are more variables, "KEY=VALUE".
	Env []string
	// Args are more arguments of "ray start".
	Args []string
}

// Head is a running Ray head.
type Head struct {
	// URL of its dashboard, on loopback.
	URL string
	// Token, and the 0600 file that holds it; empty without token authentication.
	Token, TokenFile string
	// Version of Ray, and the Python it runs on.
	Version, Python string
	// GCSAddress is host:port, for ray.init(address=...).
	GCSAddress string
	// TempDir is Ray's temporary directory.
	TempDir string
	// PID of "ray start --block".
	PID int
}

// StartHead starts one isolated head, returns once it accepts jobs, and kills it with all its descendants at the test's end.
func StartHead(t testing.TB, opts HeadOptions) *Head { panic("later") }

// Client returns a client of the head's dashboard.
func (h *Head) Client(t testing.TB) *dashboardclient.Client { panic("later") }

// Kill ends the head and all its descendants at once, as a lost machine does. It may be called twice.
func (h *Head) Kill() { panic("later") }
