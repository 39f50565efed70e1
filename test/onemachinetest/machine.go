// Package onemachinetest asks this machine, for the conformance suites of launchers whose nodes are its processes.
package onemachinetest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/proc"
	"github.com/rayctl/rayctl/test/raytest"
)

// Conformance is what the suites have in common.
func Conformance(t *testing.T) conformance.Config {
	t.Helper()
	python, here := raytest.Env(t, raytest.Ray260), Machine{State: t.TempDir()}
	return conformance.Config{
		Setting: here.State,
		Spec: func() *spec.ClusterSpec {
			return &spec.ClusterSpec{Ray: spec.Ray{Python: python}}
		},
		TwoGroups: func() *spec.ClusterSpec {
			return &spec.ClusterSpec{Ray: spec.Ray{Python: python}, Workers: []spec.WorkerGroup{
				{Name: "a"}, {Name: "b", NodeResources: spec.NodeResources{Resources: map[string]float64{"b": 1}}},
			}}
		},
		GPUNodes: func() *spec.ClusterSpec {
			visible, two := map[string]string{"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, 2 // Ray counts what stands there, and rayctl shares it out
			return &spec.ClusterSpec{Ray: spec.Ray{Python: python}, Env: visible, Workers: []spec.WorkerGroup{{Name: "gpu", Replicas: &two, NodeResources: spec.NodeResources{GPUs: 2}}}}
		},
		Elastic:         true,
		Allocated:       here.Allocated,
		KillKeeper:      here.KillKeeper,
		Hold:            here.Hold,
		HoldWorkers:     here.HoldWorkers,
		KeeperLog:       true,
		KillHead:        here.KillHead,
		FreezeDashboard: here.FreezeDashboard,
		Surfaces:        here.Surfaces,
		Story:           here.Story,
		Without: map[string]string{
			"name service away for a minute": "the parts of a cluster on one machine find each other by addresses",
			"driver that ends Ray":           "it would end all Rays of this machine: launcher/keeper TestRayStop hides them from it",
		},
	}
}

// Machine asks this machine, not the launcher, what belongs to a cluster.
type Machine struct {
	// State is the launcher's StateDir.
	State string
}

func (m Machine) dir(id launcher.ID) string { return filepath.Join(m.State, "clusters", string(id)) }

// Processes are all whose command line or environment names the cluster's run directory or one of its nodes' directories.
func (m Machine) Processes(t *testing.T, id launcher.ID) []proc.Process {
	t.Helper()
	table, err := proc.Table()
	if err != nil {
		t.Fatal(err)
	}
	var out []proc.Process
	for _, p := range table {
		if p.Zombie || p.PID == os.Getpid() {
			continue
		}
		text := proc.CommandLine(p) + "\n" + readProc(p.PID, "environ")
		if strings.Contains(text, m.dir(id)) || strings.Contains(text, "RAYCTL_RUN="+string(id)+"\x00") { // the suite's names are all of one length
			out = append(out, p)
		}
	}
	return out
}

func readProc(pid int, file string) string {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), file)) // gone meanwhile: nothing
	return string(b)
}

// Allocated is what of a cluster exists: processes, files with secrets after its end, and the nodes' directories.
func (m Machine) Allocated(t *testing.T, id launcher.ID) []string {
	t.Helper()
	var left []string
	for _, p := range m.Processes(t, id) {
		left = append(left, "process "+strconv.Itoa(p.PID)+" "+proc.CommandLine(p))
	}
	if m.ended(id) {
		files, _ := os.ReadDir(m.dir(id))
		for _, f := range files {
			if keeper.IsSecret(f.Name()) {
				left = append(left, "file "+f.Name())
			}
		}
	}
	reports, _ := filepath.Glob(filepath.Join(m.dir(id), keeper.NodesDir, "*", "report.json"))
	for _, r := range reports {
		b, _ := os.ReadFile(r)
		for _, word := range strings.Split(string(b), `"`) {
			if info, err := os.Stat(word); strings.HasPrefix(word, "/") && err == nil && info.IsDir() && !strings.HasPrefix(word, m.State) && word != "/" && word != os.TempDir() {
				left = append(left, "directory "+word)
			}
		}
	}
	return left
}

func (m Machine) ended(id launcher.ID) bool {
	_, err := os.Stat(filepath.Join(m.dir(id), keeper.ResultFile))
	return err == nil
}

// KillKeeper kills the keeper with SIGKILL.
func (m Machine) KillKeeper(t *testing.T, id launcher.ID) {
	t.Helper()
	m.kill(t, id, func(cmd string) bool { return strings.Contains(cmd, "keeper.pyz keeper") })
}

// HoldWorkers lets their setup wait for a file.
func (m Machine) HoldWorkers(t *testing.T, s *spec.ClusterSpec) func() {
	t.Helper()
	setup, release := m.Hold(t)
	s.Setup = "if [ -n \"$WAITS\" ]; then " + setup + "; fi"
	for i := range s.Workers {
		s.Workers[i].Env = map[string]string{"WAITS": "1"}
	}
	return func() { release(t, launcher.ID(s.Name)) }
}

// Hold is a setup that waits for its release.
func (m Machine) Hold(t *testing.T) (string, func(*testing.T, launcher.ID)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "go")
	return "until [ -e " + path + " ]; do sleep 0.2; done", func(t *testing.T, _ launcher.ID) {
		t.Helper()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
}

// KillHead kills the head's GCS with SIGKILL.
func (m Machine) KillHead(t *testing.T, id launcher.ID) {
	t.Helper()
	m.kill(t, id, func(cmd string) bool { return strings.Contains(cmd, "gcs_server") })
}

// FreezeDashboard stops the process that serves HTTP; Ray's other processes go on.
func (m Machine) FreezeDashboard(t *testing.T, id launcher.ID) func() {
	t.Helper()
	dashboard := func(command string) bool { return strings.Contains(command, "dashboard/dashboard.py") }
	m.signal(t, id, syscall.SIGSTOP, dashboard)
	return func() { m.signal(t, id, syscall.SIGCONT, dashboard) }
}

func (m Machine) kill(t *testing.T, id launcher.ID, match func(string) bool) {
	t.Helper()
	m.signal(t, id, syscall.SIGKILL, match)
}

func (m Machine) signal(t *testing.T, id launcher.ID, number syscall.Signal, match func(string) bool) {
	t.Helper()
	hit := 0
	for _, p := range m.Processes(t, id) {
		if match(proc.CommandLine(p)) {
			if err := syscall.Kill(p.PID, number); err != nil {
				t.Errorf("signal %d to %d: %v", number, p.PID, err)
			}
			hit++
		}
	}
	if hit != 1 {
		t.Errorf("%d processes got signal %d, not one", hit, number)
	}
}

// Story is what the keeper and the nodes have logged.
func (m Machine) Story(_ *testing.T, id launcher.ID) string {
	var b strings.Builder
	for _, pattern := range []string{keeper.KeeperLog, "keeper.err", keeper.NodesDir + "/*/start.log", keeper.NodesDir + "/*/ray_process_exit.log", keeper.NodesDir + "/*/*.err"} {
		names, _ := filepath.Glob(filepath.Join(m.dir(id), pattern))
		for _, name := range names {
			text, _ := os.ReadFile(name)
			b.WriteString("--- " + filepath.Base(name) + "\n" + string(text[max(0, len(text)-4000):]) + "\n")
		}
	}
	return b.String()
}

// Surfaces is every file of the run directory but those that hold secrets, every file of the nodes' temporary
// directories, and the command lines of all processes of this machine.
func (m Machine) Surfaces(t *testing.T, id launcher.ID) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	walk := func(root string) {
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			name := filepath.Base(path)
			if err != nil || !d.Type().IsRegular() || keeper.IsSecret(name) {
				return nil // sockets, and what vanished meanwhile
			}
			out[path], _ = os.ReadFile(path)
			return nil
		})
	}
	walk(m.dir(id))
	for _, p := range m.Processes(t, id) {
		for _, word := range strings.Fields(proc.CommandLine(p)) {
			if dir, ok := strings.CutPrefix(word, "--temp-dir="); ok {
				walk(dir)
			}
		}
	}
	table, err := proc.Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range table {
		out["command line of "+strconv.Itoa(p.PID)] = []byte(readProc(p.PID, "cmdline"))
	}
	return out
}
