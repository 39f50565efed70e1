package scripts_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/test/needs"
)

// TestPrepare runs prepare.sh on machines of a few programs, whose Python cannot make virtual environments.
func TestPrepare(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	const aptGet = `echo "$@" >>"$ASKED"`
	for _, c := range []struct {
		name     string
		programs map[string]string
		venv     bool // is installed
	}{
		{"no apt-get", nil, false},
		{"apt-get", map[string]string{"apt-get": aptGet}, true},
		{"apt-get and uv", map[string]string{"apt-get": aptGet, "uv": ""}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bin, asked := t.TempDir(), filepath.Join(t.TempDir(), "asked")
			programs := map[string]string{"python3": "exit 1", "id": "echo 0"}
			maps.Copy(programs, c.programs)
			for name, text := range programs {
				if err := os.WriteFile(filepath.Join(bin, name), []byte("#!"+bash+"\n"+text+"\n"), 0o700); err != nil { //nolint:gosec // it is a program
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), bash, "prepare.sh", "demo")
			cmd.Env = []string{"PATH=" + bin, "ASKED=" + asked}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			text, err := os.ReadFile(asked)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if got := strings.Contains(string(text), "python3-venv"); got != c.venv {
				t.Errorf("apt-get was asked: %q", text)
			}
		})
	}
}

func TestShellcheck(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), needs.Program(t, "shellcheck", "shellcheck"), "prepare.sh").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
