package needs

import (
	"context"
	_ "embed" // standin.py
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"al.essio.dev/pkg/shellescape"
)

// onlyStandInPython is the environment variable that lets tests see the stand-in alone, whatever the machine has.
const onlyStandInPython = "RAYCTL_TEST_STAND_IN_PYTHON"

// FindPython returns the interpreter of a version, such as "3.6", or "" if this machine has none. The version need not be too old. It is the program itself, not a shim of pyenv, so that it also works where
// only its directory is visible.
func FindPython(ctx context.Context, version string) string {
	if os.Getenv(onlyStandInPython) != "" {
		return ""
	}
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

//go:embed standin.py
var standInPython []byte

// Python36 returns a Python 3.6 whose files are below the directory above its own: the machine's, else the stand-in, which runs by another Python; "": python3.
func Python36(t testing.TB, by string) string {
	t.Helper()
	if found := FindPython(t.Context(), "3.6"); found != "" {
		return found
	}
	t.Log("this machine has no Python 3.6: a stand-in takes its place")
	return standInPython36(t, by)
}

// standInPython36 makes the stand-in.
func standInPython36(t testing.TB, by string) string {
	t.Helper()
	if by == "" {
		out, err := exec.CommandContext(t.Context(), "python3", "-c", "import sys; print(sys.executable, end='')").Output()
		if err != nil {
			t.Fatal(err)
		}
		by = string(out)
	}
	dir := t.TempDir()
	program, text := filepath.Join(dir, "bin", "python3.6"), filepath.Join(dir, "standin.py")
	command := "#!/bin/sh\nexec " + shellescape.QuoteCommand([]string{by, "-S", text, program}) + ` "$@"` + "\n"
	if err := errors.Join(os.Mkdir(filepath.Dir(program), 0o755), os.WriteFile(text, standInPython, 0o644), os.WriteFile(program, []byte(command), 0o755)); err != nil {
		t.Fatal(err)
	}
	return program
}

// AsPython3 makes a directory with the interpreter under the name python3, for a PATH in which it is found first.
func AsPython3(python3 string, dir string) error {
	return os.Symlink(python3, filepath.Join(dir, "python3"))
}
