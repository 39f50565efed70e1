// Package needs declares what a test needs from the machine. An unmet need skips the test with the reason. With
// CI=true it fails the test, so that nothing is skipped there unnoticed. A Python that is too old for rayctl is replaced by a stand-in (oldpython.go).
package needs

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Root needs the test to run as root.
func Root(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		missing(t, "needs root")
	}
}

// RealSystem needs a Ray, a Slurm or a Kubernetes, which take minutes: -short, as in `make check`, skips the test.
func RealSystem(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs a real system")
	}
}

// Program needs an executable; as root, a missing one is installed from the machine's Debian package pkg.
func Program(t testing.TB, name, pkg string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	if os.Getuid() != 0 {
		missing(t, "needs %s (Debian package %s)", name, pkg)
	}
	install(t, pkg)
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, "package %s brought no %s: %v", pkg, name, err)
	}
	return path
}

// That needs a condition to hold; reason describes it.
func That(t testing.TB, ok bool, reason string, args ...any) {
	t.Helper()
	if !ok {
		missing(t, reason, args...)
	}
}

func install(t testing.TB, pkg string) {
	t.Helper()
	for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "--no-install-recommends", pkg}} {
		cmd := exec.CommandContext(t.Context(), "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			missing(t, "apt-get %s: %v: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
		}
	}
}

func missing(t testing.TB, reason string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(reason, args...)
	}
	t.Skipf(reason, args...)
}
