package raytest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/test/once"
)

// interpreter is a Python of this machine with its venv module.
type interpreter struct {
	Program   string // sys.executable
	Base      string // sys.base_prefix
	Version   string // 3.11
	Optimized bool   // built with profile guided optimization: a fifth faster. Distributions do so (Debian's CONFIG_ARGS do not show it), pyenv does not
}

const askInterpreter = `import ensurepip, json, sys, sysconfig, venv
print(json.dumps({"Program": sys.executable, "Base": sys.base_prefix, "Version": "%d.%d" % sys.version_info[:2],
    "Optimized": sys.base_prefix == "/usr" or "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")}))`

// findPython returns an interpreter of the first version with wheels of this Ray that the machine has, an optimized one, if there is one.
func (r release) findPython(ctx context.Context, cache string) (string, error) {
	var found []interpreter
	for _, version := range append([]string{"3"}, r.pythons...) {
		for _, program := range []string{"python" + version, "/usr/bin/python" + version} {
			var p interpreter
			out, err := exec.CommandContext(ctx, program, "-c", askInterpreter).Output()
			if err == nil && json.Unmarshal(out, &p) == nil && slices.Contains(r.pythons, p.Version) {
				found = append(found, p)
			}
		}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("no Python %s found: install one of them (with its venv module), or uv", strings.Join(r.pythons, ", "))
	}
	best := slices.MinFunc(found, func(a, b interpreter) int {
		return cmp.Or(cmp.Compare(slices.Index(r.pythons, a.Version), slices.Index(r.pythons, b.Version)), cmp.Compare(a.rank(), b.rank()))
	})
	if _, err := os.Stat(filepath.Join(best.Base, "lib", "python"+best.Version, "os.py")); best.Base == "/usr" && err == nil {
		return best.copyInto(ctx, filepath.Join(cache, "python-"+best.Version))
	}
	return best.Program, nil
}

// DistributionPython returns the directory of a copy of the distribution's Python of this version, which was built to run fast; "" if the machine has none.
func DistributionPython(ctx context.Context, version string) (string, error) {
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	program, err := release{pythons: []string{version}}.findPython(ctx, cache)
	if copied := filepath.Join(cache, "python-"+version); err == nil && program == filepath.Join(copied, "bin", "python"+version) {
		return copied, nil
	}
	return "", err
}

// rank is 0 for the better ones.
func (p interpreter) rank() int {
	if p.Optimized {
		return 0
	}
	return 1
}

// copyInto copies the system's Python to a directory of its own: testbeds show nodes the directories of Ray and of its Python, and hide or change parts of /usr.
func (p interpreter) copyInto(ctx context.Context, dir string) (string, error) {
	name := "python" + p.Version
	dir, err := once.Dir(ctx, dir, func(ctx context.Context, tmp string) error {
		libraries, err := filepath.Glob(filepath.Join(p.Base, "lib", "lib"+name+"*.so*")) // of a Python that needs one
		if err != nil {
			return err
		}
		bin, lib := filepath.Join(tmp, "bin"), filepath.Join(tmp, "lib")
		for _, copied := range [][]string{{filepath.Join(p.Base, "bin", name), bin}, append([]string{filepath.Join(p.Base, "lib", name)}, append(libraries, lib)...)} {
			if err := os.Mkdir(copied[len(copied)-1], 0o755); err != nil {
				return err
			}
			if err := run(ctx, nil, "cp", append([]string{"-a", "-L"}, copied...)...); err != nil {
				return err
			}
		}
		return nil
	})
	return filepath.Join(dir, "bin", name), err
}
