// Package layers holds the order in which the product's packages may import one another. keeper/tests/test_imports.py
// does the same for the keeper's Python.
package layers

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/rayctl/rayctl/"
)

// order has the product's packages from the top: a package imports only what stands in a line below its own. CONTRIBUTING.md shows the same in short.
const order = `
docs/gen docs/share cmd/rayctl
cmd
cmd/clusters cmd/jobs cmd/serve cmd/access cmd/files cmd/advise
cmd/clusters/dump cmd/files/translate cmd/app/apptest
cmd/app/served cmd/app/nodefiles
cmd/app
docs
cmd/app/sizes cmd/config cmd/terminal

slurm
slurm/tunnels
slurm/site
slurm/controller
slurm/script
slurm/slurmspec
slurm/rundir
slurm/remote

kuberay
kuberay/doctor
kuberay/result
kuberay/observe
kuberay/api
kuberay/objects kuberay/transport
kuberay/admit
kuberay/kuberayspec
kuberay/manifest

tsp
local
local/onemachine
local/rayenv local/localspec local/proc
local/uvtool

templates/workloads scripts
launcher/conformance launcher/conformance/terminaltest
launcher/history launcher/orders launcher/sharedrun
launcher
launcher/keeper launcher/driverio launcher/spec/clientfiles launcher/spec/ignored launcher/spec/schema
launcher/spec
launcher/spec/environ launcher/spec/units

dashboardclient/pack
dashboardclient
dashboardclient/logstream
dashboardclient/proven

keeper
launcher/runstate launcher/sharedfile launcher/sleep launcher/tail launcher/trust
`

// guests are the only packages of launchers that others import, besides cmd, which lists the launchers.
var guests = map[string][]string{
	"tsp":             {"local/onemachine", "local/localspec"}, // tsp is a queue on one machine, and has its defaults
	"cmd/app/apptest": {"local/localspec", "slurm/slurmspec"},  // the launcher in memory that tests of verbs use
}

// neutral are packages of Slurm's launcher that another batch system could import: they import nothing of Slurm.
var neutral = []string{"slurm/rundir", "slurm/remote"}

// launchers are the folders of the launchers.
var launchers = []string{"kuberay", "local", "slurm", "tsp"}

// launcherOf is the launcher to which a package belongs; "" if it belongs to none.
func launcherOf(path string) string {
	if first, _, _ := strings.Cut(path, "/"); slices.Contains(launchers, first) {
		return first
	}
	return ""
}

// ranks is the line of each package in order.
func ranks(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	for i, line := range strings.Split(order, "\n") {
		for _, path := range strings.Fields(line) {
			if _, twice := out[path]; twice {
				t.Errorf("%s stands twice in the order", path)
			}
			out[path] = i
		}
	}
	return out
}

// goFiles are the repository's Go files, tests left out, by folder.
func goFiles(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		out[filepath.ToSlash(folder)] = append(out[filepath.ToSlash(folder)], path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// isTest reports whether a folder belongs to the tests.
func isTest(folder string) bool { return folder == "test" || strings.HasPrefix(folder, "test/") }

// imports are the packages of ours that files import, on any system.
func imports(t *testing.T, files []string) []string {
	t.Helper()
	found := map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if ours, is := strings.CutPrefix(name, module); is {
				found[ours] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// TestImportsPointDown: no package imports one that stands above or beside it, launchers know nothing of one another, and only cmd knows them.
func TestImportsPointDown(t *testing.T) {
	rank, files := ranks(t), goFiles(t)
	for path := range rank {
		if len(files[path]) == 0 {
			t.Errorf("the order has %s, which has no Go file", path)
		}
	}
	for folder := range files {
		if isTest(folder) {
			continue
		}
		mine, known := rank[folder]
		if !known {
			t.Errorf("%s is new: give it a line in the order", folder)
			continue
		}
		for _, path := range imports(t, files[folder]) {
			if isTest(path) {
				if folder != "launcher/conformance" { // the suite, which only tests import
					t.Errorf("%s imports %s, which is for tests", folder, path)
				}
				continue
			}
			if slices.Contains(neutral, folder) && launcherOf(path) != "" && !slices.Contains(neutral, path) {
				t.Errorf("%s imports %s: no other batch system could use it then", folder, path)
			}
			if rank[path] <= mine {
				t.Errorf("%s imports %s, which does not stand below it", folder, path)
			}
			if of := launcherOf(path); of != "" && of != launcherOf(folder) && folder != "cmd" && !slices.Contains(guests[folder], path) {
				t.Errorf("%s imports %s, which only the launcher %s may", folder, path, of)
			}
		}
	}
}
