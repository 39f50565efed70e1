// Package raytest gives tests real Ray: it installs Ray versions into a cache and starts isolated heads. It ends the heads with all
// their descendants, even if the test itself is killed.
package raytest

import (
	"testing"

	"github.com/rayctl/rayctl/test/needs"
)

// Versions of Ray that tests can install.
const (
	Ray260 = "2.60.0"
	Ray252 = "2.52.1" // the first with tokens
	Ray249 = "2.49.2" // the first with labels
	Ray240 = "2.40.0"
	Ray29  = "2.9.3"
)

// Env returns the Python of an environment with this version of Ray ([default,serve]). It installs it on first use, shared by all
// processes, under ${RAYCTL_TEST_CACHE:-$HOME/.cache/rayctl-test}. RAYCTL_TEST_RAY_2_60_0=DIR names an environment to use instead.
func Env(t testing.TB, version string) string {
	t.Helper()
	needs.RealSystem(t)
	python, err := Install(t.Context(), version, t.Logf)
	if err != nil {
		t.Fatalf("Ray %s for tests: %v", version, err)
	}
	return python
}
