package access

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/cmd/app"
)

// shells are the syntaxes of env.
var shells = []string{"sh", "fish", inPython}

const inPython = "python"

// beforeRay refuses variables that would have no effect: Ray reads the kind of authentication once, when it is imported.
const beforeRay = `import os, sys
if "ray" in sys.modules: raise RuntimeError("Ray is imported already, and reads these variables only then: restart Python and set them before import ray")
`

// printVars prints the lines that set the variables.
func printVars(w io.Writer, shell string, vars map[string]string) error {
	var lines strings.Builder
	if shell == inPython {
		lines.WriteString(beforeRay)
	}
	for _, name := range envNames {
		value, ok := vars[name]
		if !ok || shell == inPython && name == envTools { // the interpreter that runs is chosen already
			continue
		}
		switch shell {
		case inPython: // its strings have the escapes of Go's
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

// pathLines put the directory in RAYCTL_ENV_BIN first in PATH, once, and take it away, by shell.
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
