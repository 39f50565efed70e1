package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestModulesLikeRays: the user's files with names of modules that Ray imports do not affect Ray's own processes, and the driver can import them.
func TestModulesLikeRays(t *testing.T) {
	u := newUser(t)
	const noted = `import os, sys
open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "imported-" + __name__), "a").write(" ".join(sys.orig_argv) + "\n")
`
	names := []string{"grpc", "redis", "types", "test", "aiohttp", "google", "logging", "psutil", "mine"}
	for _, name := range names {
		u.write(name+".py", noted)
	}
	// 10 s: Ray's client server starts 5 s after the submission, and ends the head if it cannot.
	out := u.want(0, "run", "-q", "--name", "like", "--workers", "1", "--cpus-per-worker", "1", "--", "sh", "-c", `sleep 10; python -c 'import mine; print("imported")'`).out
	contains(t, "the driver's output", out, "imported")
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(u.dir, "imported-"+name))
		if name == "mine" {
			contains(t, "who imported the user's own module", string(text), "import mine")
			continue
		}
		for line := range strings.Lines(string(text)) {
			// Python itself searches there for the driver, and Ray's workers for imports of tasks.
			if !strings.Contains(line, "import mine") && !strings.Contains(line, "default_worker.py") {
				t.Errorf("%s.py was imported by %s", name, line)
			}
		}
		if err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	}
}
