package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/test/needs"
)

// completing calls the completion of bash as a press of the Tab key does: with the line, which bash has split at its word breaks, and the words.
// rayctl prints the words that it is asked for, and answers as `rayctl __complete` does.
const completing = `
source "$1"
rayctl() { printf '%s|' "$@" >&3; printf '%b' "$ANSWER"; }
COMP_LINE=$2 COMP_POINT=${#2} COMP_CWORD=$3
shift 3
COMP_WORDS=("$@")
__start_rayctl 3>&1 2> /dev/null
printf ' -> %s\n' "${COMPREPLY[*]}"
`

// TestBashWithoutPackage: the script for bash works in a shell that has nothing of the package bash-completion.
func TestBashWithoutPackage(t *testing.T) {
	bash := needs.Program(t, "bash", "bash")
	dir := t.TempDir()
	a, script, stderr := apptest.New()
	if code := a.Execute(t.Context(), NewRoot, []string{"completion", "bash"}); code != 0 {
		t.Fatal(code, stderr)
	}
	path := filepath.Join(dir, "rayctl.bash")
	for name, content := range map[string]string{path: script.String(), filepath.Join(dir, "a.yaml"): "", filepath.Join(dir, "b.txt"): ""} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		line, cword string
		words       []string
		answer      string
		want        string
	}{
		{"rayctl ru", "1", []string{"rayctl", "ru"}, `run\tRun one job\n:4\n`, "__complete|ru| -> run\n"},
		{"rayctl run ", "2", []string{"rayctl", "run", ""}, `a\nb\n:4\n`, "__complete|run|| -> a b\n"},
		{"rayctl run --on-interrupt=", "3", []string{"rayctl", "run", "--on-interrupt", "="}, `stop\ndetach\n:4\n`, "__complete|run|--on-interrupt=| -> stop detach\n"},
		{"rayctl run --on-interrupt=d", "4", []string{"rayctl", "run", "--on-interrupt", "=", "d"}, `detach\n:4\n`, "__complete|run|--on-interrupt=d| -> detach\n"},
		{"rayctl cp dev:/tm", "4", []string{"rayctl", "cp", "dev", ":", "/tm"}, `dev:/tmp/\n:6\n`, "__complete|cp|dev:/tm| -> /tmp/\n"},
		{"rayctl run -f ", "3", []string{"rayctl", "run", "-f", ""}, `yaml\nyml\n:8\n`, "__complete|run|-f|| -> a.yaml\n"},
	} {
		cmd := exec.CommandContext(t.Context(), bash, append([]string{"--norc", "--noprofile", "-c", completing, "bash", path, c.line, c.cword}, c.words...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "ANSWER="+c.answer)
		if out, err := cmd.Output(); err != nil || string(out) != c.want {
			t.Errorf("%q: %v, %q; want %q", c.line, err, out, c.want)
		}
	}
}

// TestKeyCompletion: --set and help complete keys of the cluster file.
func TestKeyCompletion(t *testing.T) {
	for line, want := range map[string][]string{
		"run --set slurm.":       {"slurm.partition=\t", "slurm.dir=\t"},
		"run --set slu":          {"slurm.\n", ":6\n"},
		"submit --set job.resta": {"job.restarts.\n"},
		"help job.":              {"job.pip\t", "job.restarts.\n"},
		"help elas":              {"elastic\n"},
		"help jo":                {"jobs\t", "job.\n"},
		"help serve ap":          {"apply\t"},
	} {
		a, out, _ := apptest.New()
		if code := a.Execute(t.Context(), NewRoot, append([]string{"__complete"}, strings.Fields(line)...)); code != 0 {
			t.Errorf("%s: code %d", line, code)
		}
		for _, part := range want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s: %q is not in\n%s", line, part, out)
			}
		}
	}
}
