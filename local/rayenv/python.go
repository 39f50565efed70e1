package rayenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/tail"
)

// python is what an interpreter reports about itself.
type python struct {
	Path      string
	Version   [2]int
	Ray       string // version of Ray it has; empty: none
	Dashboard bool   // Ray's extra "default" is there
	Ensurepip bool   // can make virtual environments with pip
}

func (p python) minor() string { return fmt.Sprintf("%d.%d", p.Version[0], p.Version[1]) }

// probe reads metadata only: importing Ray takes a second. The current directory, where somebody else's json.py may lie, is no place for modules.
const probe = `
import sys
sys.path = [p for p in sys.path if p]
import importlib.util as u, json, sys
try:
    import importlib.metadata as m
except ImportError:
    m = None
def version(name):
    try: return m.version(name)
    except Exception: return ""
print(json.dumps({"Path": sys.executable, "Version": list(sys.version_info[:2]), "Ray": version("ray"),
    "Dashboard": u.find_spec("aiohttp_cors") is not None, "Ensurepip": u.find_spec("ensurepip") is not None}))`

// probeLimit is generous: a cold interpreter on a loaded machine or a network file system takes seconds.
const probeLimit = time.Minute

func ask(ctx context.Context, path string) (python, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	var p python
	cmd := exec.CommandContext(ctx, path, "-c", probe)
	cmd.Dir = "/" // `python -c` imports from where it is: a types.py of the user's project is no part of the interpreter
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			if line := tail.LastLine(string(exit.Stderr)); line != "" {
				return p, errors.New(line)
			}
		}
		return p, err
	}
	if err := json.Unmarshal(out, &p); err != nil {
		return p, fmt.Errorf("it answers %q", tail.LastLine(string(out)))
	}
	return p, nil
}

// existing checks the user's own Python.
func existing(ctx context.Context, o Options) (Env, error) {
	if len(o.Packages) > 0 {
		return Env{}, launcher.Fail(runstate.CodeSpec, nil, "install them there yourself, or leave ray.python out",
			"local.packages cannot be installed into your own environment %s", o.Python)
	}
	path, err := interpreterOf(o.Python)
	if err != nil {
		return Env{}, launcher.Fail(runstate.CodeConfig, err, "give an interpreter or the directory of a virtual environment, or leave ray.python out",
			"ray.python %q cannot be used: %v", o.Python, err)
	}
	p, err := ask(ctx, path)
	switch {
	case ctx.Err() != nil:
		return Env{}, launcher.Fail(runstate.CodeInterrupted, ctx.Err(), "", "interrupted while looking at ray.python %q", o.Python)
	case err != nil:
		return Env{}, launcher.Fail(runstate.CodeConfig, err, "repair it, or leave ray.python out",
			"ray.python %q does not work: %v", o.Python, err)
	case p.Ray == "":
		return Env{}, launcher.Fail(runstate.CodeConfig, nil, "run `"+path+" -m pip install 'ray[default]'`, or leave ray.python out",
			"ray.python %q has no Ray", o.Python)
	case o.Version != "" && p.Ray != o.Version:
		return Env{}, launcher.Fail(runstate.CodeConfig, nil, "change ray.version, or leave ray.python out",
			"ray.python %q has Ray %s, but ray.version is %s", o.Python, p.Ray, o.Version)
	case !p.Dashboard:
		return Env{}, launcher.Fail(runstate.CodeConfig, nil, "run `"+path+" -m pip install 'ray[default]=="+p.Ray+"'`",
			"ray.python %q has Ray without its dashboard, which jobs need", o.Python)
	}
	return newEnv(path, p.Ray, ""), nil
}

// interpreterOf finds the interpreter of a directory, a path or a name on PATH.
func interpreterOf(python string) (string, error) {
	path := python
	if info, err := os.Stat(python); err == nil && info.IsDir() {
		path = filepath.Join(python, "bin", "python")
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return "", errors.Unwrap(err)
	}
	return filepath.Abs(found)
}

// Minor versions of Python 3 that have wheels of Ray, by Ray's minor version, oldest first (PyPI's classifiers). A Ray newer
// than the table is taken to support what the last line does; pip has the last word.
var supported = []struct{ ray, oldest, newest int }{
	{0, 6, 9}, {3, 7, 11}, {7, 8, 11}, {11, 9, 11}, {13, 9, 12}, {41, 9, 13}, {52, 10, 13}, {54, 10, 14},
}

func supportedBy(ray string) (oldest, newest int) {
	minor := 1 << 30
	if parts := strings.Split(ray, "."); len(parts) > 1 && parts[0] == "2" {
		minor, _ = strconv.Atoi(parts[1])
	}
	for _, s := range supported {
		if minor >= s.ray {
			oldest, newest = s.oldest, s.newest
		}
	}
	return oldest, newest
}

// choosePython finds the newest Python on PATH that this Ray supports. With uv, which must be allowed, there may be none: uv brings its own.
func choosePython(ctx context.Context, ray string, uv bool) (python, error) {
	uv = uv && haveUv()
	oldest, newest := supportedBy(ray)
	var refused []string
	for _, name := range candidates(oldest, newest) {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		p, err := ask(ctx, path) // a name on PATH may be a shim that has no such version
		switch {
		case ctx.Err() != nil:
			return p, launcher.Fail(runstate.CodeInterrupted, ctx.Err(), "", "interrupted while looking for Python")
		case err != nil:
			refused = append(refused, fmt.Sprintf("%s does not work (%v)", path, err))
		case p.Version[0] != 3 || p.Version[1] < oldest || p.Version[1] > newest:
			refused = append(refused, fmt.Sprintf("%s is Python %s", path, p.minor()))
		case !p.Ensurepip && !uv:
			refused = append(refused, fmt.Sprintf("%s cannot make virtual environments (Debian and Ubuntu: apt install python%s-venv)", path, p.minor()))
		default:
			return p, nil
		}
	}
	if uv {
		return python{Version: [2]int{3, min(newest, 12)}}, nil
	}
	return python{}, noPython(ray, oldest, newest, refused)
}

func candidates(oldest, newest int) (names []string) {
	for minor := newest; minor >= oldest; minor-- {
		names = append(names, fmt.Sprintf("python3.%d", minor))
	}
	return append(names, "python3", "python")
}

func noPython(ray string, oldest, newest int, refused []string) error {
	found := "none is on PATH"
	if len(refused) > 0 {
		found = refused[len(refused)-1]
	}
	return launcher.Fail(runstate.CodeConfig, nil, "install one (or uv), or name an environment that has Ray in ray.python",
		"Ray %s needs Python 3.%d to 3.%d with venv, but %s", ray, oldest, newest, found)
}

func haveUv() bool {
	_, err := exec.LookPath("uv")
	return err == nil
}
