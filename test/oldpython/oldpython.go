// Package oldpython finds Pythons that are too old for rayctl, as sites have them: RHEL 8 has 3.6. No test needs one: Debian has no package of them.
package oldpython

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Find returns the interpreter of a version, such as "3.6", or "" if this machine has none. It is the program itself, not a shim of pyenv, so that it also works where
// only its directory is visible.
func Find(ctx context.Context, version string) string {
	candidates := []string{"/usr/libexec/platform-python"} // RHEL's own
	if path, err := exec.LookPath("python" + version); err == nil {
		candidates = append(candidates, path)
	}
	root := os.Getenv("PYENV_ROOT")
	if home, err := os.UserHomeDir(); root == "" && err == nil {
		root = filepath.Join(home, ".pyenv")
	}
	found, _ := filepath.Glob(filepath.Join(root, "versions", version+".*", "bin", "python"+version)) // the pattern is well-formed
	for _, program := range append(candidates, found...) {
		out, err := exec.CommandContext(ctx, program, "-c", `import sys; print("%d.%d" % sys.version_info[:2]); print(sys.executable)`).Output()
		if is, executable, _ := strings.Cut(strings.TrimSpace(string(out)), "\n"); err == nil && is == version && filepath.IsAbs(executable) {
			return executable
		}
	}
	return ""
}

// As makes a directory with the interpreter under the name python3, for a PATH in which it is found first.
func As(python3 string, dir string) error { return os.Symlink(python3, filepath.Join(dir, "python3")) }
