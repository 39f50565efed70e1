package access

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
)

// shells are the languages in which env prints its lines.
var shells = []string{"sh", "fish", inPython}

const inPython = "python"

// beforeRay raises an error if Ray is already imported: Ray reads the kind of authentication only at its import, so the variables would have no effect.
const beforeRay = `import os, sys
if "ray" in sys.modules: raise RuntimeError("Ray is imported already, and it reads these variables only at its import: restart Python and set them before import ray")
`

// withoutRay says it where this Python has no Ray, and as a comment to whoever reads the lines.
const withoutRay = `# %s
import importlib.util
if importlib.util.find_spec("ray") is None: print("This Python (" + sys.executable + ") has no Ray: " + %s, file=sys.stderr)
`

// ownRay says which Python has the cluster's Ray, or what another one needs. tools is where this machine has it ("": nowhere), version that of Ray.
func ownRay(name, tools, version string) string {
	if version != "" {
		version = "==" + version
	}
	install := "pip install 'ray[default]" + version + "'"
	if tools == "" {
		return install + " in the minor version of Python that `rayctl exec " + name + " -- python -V` shows"
	}
	python := filepath.Join(tools, "python")
	minor := "of the same minor version"
	files, _ := os.ReadDir(tools) // one that is not there has none
	for _, f := range files {
		if m := minorVersion.FindStringSubmatch(f.Name()); m != nil {
			minor = m[1]
		}
	}
	return fmt.Sprintf("%s has the cluster's Ray; another Python %s needs %s", python, minor, install)
}

// minorVersion matches the program of a minor version of Python.
var minorVersion = regexp.MustCompile(`^python(3\.\d+)$`)

// printVars prints the lines that set the variables. ray says where Python has Ray.
func printVars(w io.Writer, shell string, vars map[string]string, ray string) error {
	var lines strings.Builder
	if shell == inPython {
		lines.WriteString(beforeRay)
		fmt.Fprintf(&lines, withoutRay, terminal.OneLine(ray), strconv.QuoteToASCII(ray))
	}
	for _, name := range envNames {
		value, ok := vars[name]
		if !ok || shell == inPython && name == envTools { // PATH chooses the interpreter, and here one already runs
			continue
		}
		switch shell {
		case inPython: // Python's strings have the same escapes as Go's
			fmt.Fprintf(&lines, "os.environ[%q] = %s\n", name, strconv.QuoteToASCII(value))
		case "fish":
			fmt.Fprintf(&lines, "set -gx %s %s\n", name, shellescape.Quote(value))
		default:
			fmt.Fprintf(&lines, "export %s=%s\n", name, shellescape.Quote(value))
		}
	}
	if vars[envTools] != "" && shell != inPython {
		fmt.Fprintln(&lines, pathLines[shell][0])
	}
	_, err := io.WriteString(w, lines.String())
	return err
}

// pathLines has two lines for each shell: the first puts the directory of RAYCTL_ENV_BIN at the front of PATH, once; the second removes it from PATH.
var pathLines = map[string][2]string{
	"sh":   {`export PATH="$RAYCTL_ENV_BIN:${PATH#"$RAYCTL_ENV_BIN":}"`, `[ -z "${RAYCTL_ENV_BIN-}" ] || export PATH="${PATH#"$RAYCTL_ENV_BIN":}"`},
	"fish": {`set -gx PATH $RAYCTL_ENV_BIN (string match -v -- $RAYCTL_ENV_BIN $PATH)`, `set -q RAYCTL_ENV_BIN; and set -gx PATH (string match -v -- $RAYCTL_ENV_BIN $PATH)`},
}

// printUnset prints the lines that remove the variables.
func printUnset(a *app.App, o *envOptions) error {
	var err error
	switch o.shell {
	case inPython:
		_, err = fmt.Fprintf(a.Out, "import os\nfor name in \"%s\".split(): os.environ.pop(name, None)\n", strings.Join(envNames, " "))
	case "fish":
		_, err = fmt.Fprintln(a.Out, pathLines[o.shell][1]+"\nset -e "+strings.Join(envNames, " "))
	default:
		_, err = fmt.Fprintln(a.Out, pathLines[o.shell][1]+"\nunset "+strings.Join(envNames, " "))
	}
	return err
}
