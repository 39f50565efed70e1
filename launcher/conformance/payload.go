package conformance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rayctl/rayctl/dashboardclient/pack"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Every launch of the suite has the payload that real launches have: a working directory, a module, a runtime environment, variables, a secret.
const (
	suiteSecret = "RAYCTL_SUITE_SECRET"
	suiteDigest = "RAYCTL_SUITE_DIGEST" // the variable that holds the secret's SHA-256
	suiteModule = "rayctl_suite"
)

// payloadHere is the Python code that fails without the module and the secret.
const payloadHere = `import hashlib, os
import ` + suiteModule + `
assert ` + suiteModule + `.here
assert hashlib.sha256(os.environ["` + suiteSecret + `"].encode()).hexdigest() == os.environ["` + suiteDigest + `"]
`

// linesProgram is the file lines.py of the working directory. `python lines.py SECONDS [CODE]` checks that the whole payload has reached the driver, prints
// a line each second, and exits. It is not a shell script, because a shell prints a line of its own when its child is killed.
const linesProgram = payloadHere + `import sys, time
for i in range(int(sys.argv[1])):
    print("line", i + 1, flush=True)
    time.sleep(1)
sys.exit(int((sys.argv[2:] or ["0"])[0]))
`

// linesDriver is the entrypoint that runs linesProgram.
func linesDriver(seconds, code int) string {
	return fmt.Sprintf("exec python lines.py %d %d", seconds, code)
}

// writePayload makes the working directory and the module that all launches of a suite use.
func writePayload(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{"work/lines.py": linesProgram, suiteModule + "/__init__.py": "here = True\n"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// carry adds the payload to a spec, as a cluster file would.
func (s *suite) carry(sp *spec.ClusterSpec) {
	sum := sha256.Sum256([]byte(secretOf(sp)))
	sp.Job.WorkingDir, sp.Job.PyModules = filepath.Join(s.payload, "work"), []string{filepath.Join(s.payload, suiteModule)}
	sp.Job.RuntimeEnv = spec.Object{"config": map[string]any{"setup_timeout_seconds": 900}}
	sp.Job.Env = map[string]string{suiteDigest: hex.EncodeToString(sum[:])}
	sp.Secrets = []spec.Secret{{Name: suiteSecret}}
}

// secretOf has the same result in the test's process and in the clients that the test starts.
func secretOf(sp *spec.ClusterSpec) string {
	sum := sha256.Sum256([]byte("the secret of " + sp.Name))
	return hex.EncodeToString(sum[:])
}

// payloadOf builds the payload of a spec as the command does, see cmd/clusters/launch.go.
func payloadOf(sp *spec.ClusterSpec) launcher.Payload {
	p := launcher.Payload{Secrets: map[string]string{suiteSecret: secretOf(sp)}}
	if sp.Job.WorkingDir != "" {
		p.Packages = func(ctx context.Context) (*launcher.Packages, error) { return packagesOf(ctx, sp) }
	}
	return p
}

func packagesOf(ctx context.Context, sp *spec.ClusterSpec) (*launcher.Packages, error) {
	options := pack.Options{CacheDir: filepath.Join(filepath.Dir(sp.Job.WorkingDir), "packages")}
	work, err := pack.WorkingDir(ctx, sp.Job.WorkingDir, options)
	if err != nil {
		return nil, err
	}
	out := &launcher.Packages{RuntimeEnv: map[string]any{"working_dir": work.URI}}
	made := []*pack.Package{work}
	var modules []any
	for _, path := range sp.Job.PyModules {
		module, err := pack.Module(ctx, path, options)
		if err != nil {
			return nil, err
		}
		made, modules = append(made, module), append(modules, module.URI)
	}
	out.RuntimeEnv["py_modules"] = modules
	for key, value := range sp.Job.RuntimeEnv {
		out.RuntimeEnv[key] = value
	}
	for _, p := range made {
		out.Files = append(out.Files, launcher.PackageFile{URI: p.URI, Path: p.Path, Size: p.Size})
	}
	return out, nil
}
