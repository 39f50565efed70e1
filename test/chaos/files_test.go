//go:build linux

package chaos

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/launcher/keeper"
)

// plainEnvironment is this process's environment without variables of other rayctls, Rays or Slurms.
func plainEnvironment() (env []string) {
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "RAY") && !strings.HasPrefix(name, "SLURM") && name != "CI" && name != "HOME" && !strings.HasPrefix(name, "XDG_") {
			env = append(env, kv)
		}
	}
	return env
}

// ofRun returns the processes with a run's name or directory.
func ofRun(run, dir string) (out []process) {
	for _, p := range table() {
		text := p.command + " \x00" + p.environ
		if strings.Contains(p.environ, "RAYCTL_RUN="+run+"\x00") || strings.Contains(text, dir+"/") || strings.Contains(text, dir+" ") || strings.Contains(text, dir+"\x00") {
			out = append(out, p)
		}
	}
	return out
}

// files returns all files below a directory except those that exist to hold secrets.
func files(root string) map[string][]byte {
	out := map[string][]byte{}
	_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !keeper.IsSecret(d.Name()) {
			out[path], _ = os.ReadFile(path) // empty if removed meanwhile
		}
		return nil
	})
	return out
}

// secretFiles returns files that must be removed with the cluster.
func secretFiles(root string) (left []string) {
	_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && keeper.IsSecret(d.Name()) {
			left = append(left, "file "+path)
		}
		return nil
	})
	return left
}

// argv are the command lines of all processes of this machine.
func argv() map[string][]byte {
	out := map[string][]byte{}
	for _, p := range table() {
		out["command line of "+strconv.Itoa(p.pid)] = []byte(p.command)
	}
	return out
}

func merge[V any](all ...map[string]V) map[string]V {
	out := map[string]V{}
	for _, some := range all {
		maps.Copy(out, some)
	}
	return out
}

// story is the end of the logs of keeper, batch script and supervisors below a directory.
func story(root string) string {
	var b strings.Builder
	for _, pattern := range []string{"slurm.out", "keeper.log", "keeper.err", "nodes/*/start.log", "*/keeper.log", "*/nodes/*/start.log"} {
		names, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, name := range names {
			text, _ := os.ReadFile(name)
			b.WriteString("--- " + name + "\n" + string(text[max(0, len(text)-5000):]) + "\n")
		}
	}
	return b.String()
}
