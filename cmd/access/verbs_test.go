package access

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// verbs are the commands of this package.
var verbs = apptest.Tree(NewExec, NewPortForward, NewDashboard, NewEnv, NewTop)

// TestPortForwardRefused: who may not reach the node is not told that the port reaches it.
func TestPortForwardRefused(t *testing.T) {
	const words = "you may not create pods/portforward in namespace default: ask for the role of `rayctl doctor`"
	apptest.Run(t, verbs, func() launcher.Launcher {
		l := (&apptest.Launcher{Ray: &apptest.Ray{}}).With("dev")
		l.Closed = launcher.Fail(runstate.CodePermission, nil, "ask for the role of `rayctl doctor`", "you may not create pods/portforward in namespace default")
		return l
	}, []apptest.Line{
		{Args: "port-forward dev :8000", Code: runstate.CodePermission, Err: words, Unsaid: "reaches"},
		{Args: "port-forward dev --node head-0 :8000", Code: runstate.CodePermission, Err: words, Unsaid: "reaches"},
	})
}

// TestLines: command lines of exec, port-forward, dashboard and env.
func TestLines(t *testing.T) {
	with := func() launcher.Launcher {
		return (&apptest.Launcher{Ray: &apptest.Ray{}}).With("dev", "old", "queued")
	}
	apptest.Run(t, verbs, with, []apptest.Line{
		{Args: "__complete exec dev --node ''", Out: "head-0\there\n:4\n"},
		{Args: "__complete port-forward dev --node ''", Out: "head-0\there\n:4\n"},
		{Args: "exec dev -- echo a b", Out: "a b\n", Err: "local cluster dev\n"},
		{Args: "exec dev --node head-0 -- echo $HOME", Out: "$HOME\n"},
		{Args: "exec dev -i -- cat", Stdin: "typed", Out: "typed"},
		{Args: "exec dev -t -- true", Err: "-t has no effect: it needs -i, and a terminal as stdin"},
		{Args: "exec dev -- false", Code: 1},
		{Args: "exec dev echo a -b", Out: "a -b\n"},
		{Args: "exec dev -- cat", Terminal: true, Stdin: "typed", Out: "typed"},
		{Args: "exec dev -i=false -- cat", Terminal: true, Stdin: "typed"},
		{Args: "exec dev a.py", Code: runstate.CodeUsage, Err: "rayctl exec dev -- python a.py"},
		{Args: "exec dev -- sh -c exit${IFS}7", Code: 7},
		{Args: "exec dev", Code: runstate.CodeUsage, Err: "`rayctl exec` needs a command after --, because it does not run on a terminal: write it like `rayctl exec dev -- nvidia-smi`"},
		{Args: "exec dev", Terminal: true, Stdin: "echo a shell", Out: "a shell\n"},
		{Args: "ssh dev", Terminal: true, Stdin: "echo a shell", Out: "a shell\n"},
		{Args: "shell dev -- cat", Stdin: "typed", Out: "typed"},
		{Args: "exec a b -- true", Code: runstate.CodeUsage, Err: "Put the command after `--`: rayctl exec a -- b true"},
		{Args: "exec dev --node nosuch -- true", Code: runstate.CodeSpec, Err: `cluster dev has no node "nosuch": there are head-0`},
		{Args: "exec dev --node '' -- true", Code: runstate.CodeUsage, Err: "--node is empty"},
		{Args: "exec nosuch -- true", Code: runstate.CodeSpec, Err: `no cluster named "nosuch"`},
		{Args: "exec -- true", Code: runstate.CodeUsage, Err: "More than one cluster matches: dev, queued"},
		{Args: "port-forward dev :8000", Interrupt: true, Out: "127.0.0.1:", Err: "reaches port 8000 of dev, until Ctrl-C"},
		{Args: "port-forward dev", Code: runstate.CodeUsage, Err: "`rayctl port-forward` needs a port: write it like `rayctl port-forward 8000`"},
		{Args: "port-forward dev 99999", Code: runstate.CodeUsage, Err: `"99999" is not a port: write it LOCAL:REMOTE, like 9000:8000`},
		{Args: "port-forward dev 1:2:3", Code: runstate.CodeUsage, Err: `"1:2:3" is not a port`},
		{Args: "port-forward :8000", Code: runstate.CodeUsage, Err: "More than one cluster matches"},
		{Args: "top dev", Out: "NODE     CPUS    CPU%   GPUS   GPU%   MEMORY         TASKS   ACTORS\nhead-0   2.5/8   38     1/4    50     2.0/16.0 GiB   1       1\n"},
		{Args: "top dev -o json", Out: `"cpu_percent": 37.5`, JSON: true},
		{Args: "top dev -w", Interrupt: true, Code: runstate.CodeInterrupted, Out: "head-0"},
		{Args: "top queued", Code: runstate.CodeUnreachable, Err: "cluster queued is not ready yet"},
		{Args: "top a b", Code: runstate.CodeUsage, Err: "`rayctl top` takes one name"},
		{Args: "dashboard dev", Interrupt: true, Out: "http://127.0.0.1:", Err: "the dashboard of dev, until Ctrl-C"},
		{Args: "dashboard dev --port 99999", Code: runstate.CodeUsage, Err: "99999 is not a port: choose a port up to 65535, or 0 for a free one"},
		{Args: "dashboard dev --port x", Code: runstate.CodeUsage, Err: `--port: "x" is not valid: it is --port PORT (local PORT (default: a free one))`},
		{Args: "dashboard queued", Code: runstate.CodeUnreachable, Err: "cluster queued is not ready yet: `rayctl status -w queued` shows when"},
		{Args: "dashboard old", Code: runstate.CodeSpec, Err: "cluster old has ended (succeeded): `rayctl logs old` shows its output"},
		{Args: "dashboard a b", Code: runstate.CodeUsage, Err: "`rayctl dashboard` takes one name"},
		{Args: "env dev", Out: "export RAY_AUTH_MODE=token\nexport RAY_AUTH_TOKEN_PATH="},
		{Args: "env dev --python", Out: "import os, sys\nif \"ray\" in sys.modules: raise RuntimeError(\"Ray is imported already"},
		{Args: "env dev --shell python", Out: "os.environ[\"RAY_AUTH_MODE\"] = \"token\"\nos.environ[\"RAY_AUTH_TOKEN_PATH\"] = \"/"},
		{Args: "env dev --python", Out: "# pip install 'ray[default]"},
		{Args: "env old --python", Code: runstate.CodeSpec, Err: "cluster old has ended"},
		{Args: "env --unset --python", Out: "os.environ.pop(name, None)\n"},
		{Args: "env dev --shell fish", Out: "set -gx RAY_AUTH_MODE token\n"},
		{Args: "env dev -o json", Out: `"RAY_AUTH_MODE": "token"`},
		{Args: "env --unset", Out: "\nunset RAY_API_SERVER_ADDRESS RAY_ADDRESS RAY_AUTH_MODE RAY_AUTH_TOKEN_PATH RAY_enable_autoscaler_v2 RAYCTL_ENV_BIN\n"},
		{Args: "env --unset --shell fish", Out: "\nset -e RAY_API_SERVER_ADDRESS"},
		{Args: "env dev --shell tcsh", Code: runstate.CodeUsage, Err: `--shell: "tcsh" is unknown: it takes sh, fish or python`},
		{Args: "env dev -o name", Code: runstate.CodeUsage, Err: `no output format "name"`},
		{Args: "env old", Code: runstate.CodeSpec, Out: "false\n", Err: "cluster old has ended"},
		{Args: "env a b", Code: runstate.CodeUsage, Err: "`rayctl env` takes one name"},
	})
}

// TestTunnels: in an ssh session the browser is elsewhere.
func TestTunnels(t *testing.T) {
	t.Setenv("SSH_CONNECTION", "10.0.0.1 5000 10.0.0.2 22")
	t.Setenv("USER", "ann")
	apptest.Run(t, verbs, func() launcher.Launcher { return (&apptest.Launcher{Ray: &apptest.Ray{}}).With("dev") }, []apptest.Line{
		{Args: "dashboard dev", Interrupt: true, Out: "http://127.0.0.1:", Err: "on the machine from which you logged in by ssh: `ssh -N -L "},
		{Args: "dashboard dev", Interrupt: true, Out: "http://127.0.0.1:", Err: " ann@10.0.0.2`, then the same URL"},
	})
}

// freePorts is a launcher whose heads are on this machine, each with a free port for its dashboard.
type freePorts struct{ *apptest.Launcher }

func (freePorts) Watch(context.Context, launcher.ID) (<-chan launcher.Status, error) {
	statuses := make(chan launcher.Status, 1)
	statuses <- launcher.Status{Head: runstate.Head{Dashboard: "http://127.0.0.1:20151"}}
	return statuses, nil
}

// TestDashboardPort: 8265 is the dashboard, where nothing else listens on the heads' machine; other ports are there already.
func TestDashboardPort(t *testing.T) {
	with := func() launcher.Launcher { return freePorts{(&apptest.Launcher{Ray: &apptest.Ray{}}).With("dev")} }
	apptest.Run(t, verbs, with, []apptest.Line{
		{Args: "port-forward dev :8265", Interrupt: true, Out: "127.0.0.1:", Err: "the dashboard of dev has port 20151 on its node; `rayctl dashboard dev` also sends its token\n"},
		{Args: "port-forward dev :8265", Interrupt: true, Out: "127.0.0.1:", Err: "reaches port 20151 of dev"},
		{Args: "port-forward dev 8000", Code: runstate.CodeUsage, Err: "dev is on this machine, and so is its port 8000"},
		{Args: "port-forward dev :8000", Interrupt: true, Out: "127.0.0.1:", Err: "reaches port 8000 of dev"},
	})
}

// TestPythonVariables: Python reads back each value, and says where Ray is if it has none.
func TestPythonVariables(t *testing.T) {
	const hostile = "/a b/'\"\\\n$(x) ä\U0001F600\t{}%s"
	var lines strings.Builder
	if err := printVars(&lines, inPython, map[string]string{"RAY_AUTH_TOKEN_PATH": hostile, envTools: "/bin"}, ownRay("dev", hostile, "2.60.0")); err != nil {
		t.Fatal(err)
	}
	const none, some = "import importlib.util; importlib.util.find_spec = lambda name: None", "import importlib.util; importlib.util.find_spec = lambda name: 1"
	for _, c := range []struct {
		ray, want, unsaid string
	}{
		{some, hostile, "has no Ray"},
		{none, ") has no Ray: " + hostile + "/python has the cluster's Ray; another Python of the same minor version needs pip install 'ray[default]==2.60.0'\n", "Traceback"},
		{none, "\n" + hostile, "Traceback"},
		{"sys.modules['ray'] = sys", "RuntimeError: Ray is imported already", "has no Ray"},
	} {
		p := exec.Command("python3", "-c", "import sys; sys.stdout.reconfigure(encoding='utf-8'); "+c.ray+"; exec(sys.argv[1]); print(os.environ['RAY_AUTH_TOKEN_PATH'])", lines.String())
		p.Env = append(os.Environ(), "PYTHONUTF8=1")
		out, err := p.CombinedOutput()
		said := strings.ReplaceAll(string(out), lines.String(), "")
		if !strings.Contains(said, c.want) || strings.Contains(said, c.unsaid) {
			t.Errorf("%s: %v: %s", c.ray, err, out)
		}
	}
}

// TestOwnRay: what another Python needs is said as far as it is known.
func TestOwnRay(t *testing.T) {
	tools := filepath.Join(t.TempDir(), "[a]*")
	apptest.WriteFiles(t, tools, map[string]string{"python": "", "python3": "", "python3.11": "", "python3.11-config": ""})
	for _, c := range []struct{ tools, version, want string }{
		{tools, "2.60.0", tools + "/python has the cluster's Ray; another Python 3.11 needs pip install 'ray[default]==2.60.0'"},
		{"", "2.60.0", "pip install 'ray[default]==2.60.0' in the minor version of Python that `rayctl exec dev -- python -V` shows"},
		{"", "", "pip install 'ray[default]' in the minor"},
	} {
		if got := ownRay("dev", c.tools, c.version); !strings.HasPrefix(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
