package local_test

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
	"github.com/rayctl/rayctl/local"
	"github.com/rayctl/rayctl/local/proc"
	"github.com/rayctl/rayctl/test/raytest"
)

func TestMain(m *testing.M) {
	conformance.Main(m, func(state string) launcher.Launcher {
		l, err := local.New(local.Config{StateDir: state, CacheDir: filepath.Join(state, "cache")})
		if err != nil {
			panic(err)
		}
		return l
	})
}

func TestConformance(t *testing.T) {
	python := raytest.Env(t, raytest.Ray260)
	state := t.TempDir()
	here := machine{state: state}
	conformance.Run(t, conformance.Config{
		Setting: state,
		Spec: func() *spec.ClusterSpec {
			return &spec.ClusterSpec{Ray: spec.Ray{Python: python}}
		},
		TwoGroups: func() *spec.ClusterSpec {
			return &spec.ClusterSpec{Ray: spec.Ray{Python: python}, Workers: []spec.WorkerGroup{
				{Name: "a"}, {Name: "b", NodeResources: spec.NodeResources{Resources: map[string]float64{"b": 1}}},
			}}
		},
		Allocated:       here.allocated,
		KillKeeper:      here.killKeeper,
		Hold:            here.hold,
		KillHead:        here.killHead,
		FreezeDashboard: here.freezeDashboard,
		Surfaces:        here.surfaces,
		Story:           here.story,
		Patience:        patience,
	})
}

// machine asks this machine, not the launcher, what belongs to a cluster.
type machine struct{ state string }

func (m machine) dir(id launcher.ID) string { return filepath.Join(m.state, "clusters", string(id)) }

// processes are all whose command line or environment names the cluster's run directory or one of its nodes' directories.
func (m machine) processes(t *testing.T, id launcher.ID) []proc.Process {
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

func (m machine) allocated(t *testing.T, id launcher.ID) []string {
	t.Helper()
	var left []string
	for _, p := range m.processes(t, id) {
		left = append(left, "process "+strconv.Itoa(p.PID)+" "+proc.CommandLine(p))
	}
	for _, secret := range []string{keeper.TokenFile, keeper.SecretsFile} {
		if _, err := os.Stat(filepath.Join(m.dir(id), secret)); err == nil && m.ended(id) {
			left = append(left, "file "+secret)
		}
	}
	reports, _ := filepath.Glob(filepath.Join(m.dir(id), keeper.NodesDir, "*", "report.json"))
	for _, r := range reports {
		b, _ := os.ReadFile(r)
		for _, word := range strings.Split(string(b), `"`) {
			if info, err := os.Stat(word); strings.HasPrefix(word, "/") && err == nil && info.IsDir() && !strings.HasPrefix(word, m.state) && word != "/" && word != os.TempDir() {
				left = append(left, "directory "+word)
			}
		}
	}
	return left
}

func (m machine) ended(id launcher.ID) bool {
	_, err := os.Stat(filepath.Join(m.dir(id), keeper.ResultFile))
	return err == nil
}

func (m machine) killKeeper(t *testing.T, id launcher.ID) {
	t.Helper()
	m.kill(t, id, func(cmd string) bool { return strings.Contains(cmd, "keeper.pyz keeper") })
}

func (m machine) hold(t *testing.T) (string, func(*testing.T, launcher.ID)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "go")
	return "until [ -e " + path + " ]; do sleep 0.2; done", func(t *testing.T, _ launcher.ID) {
		t.Helper()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
}

func (m machine) killHead(t *testing.T, id launcher.ID) {
	t.Helper()
	m.kill(t, id, func(cmd string) bool { return strings.Contains(cmd, "gcs_server") })
}

// freezeDashboard stops the process that serves HTTP; Ray's other processes go on.
func (m machine) freezeDashboard(t *testing.T, id launcher.ID) func() {
	t.Helper()
	dashboard := func(command string) bool { return strings.Contains(command, "dashboard/dashboard.py") }
	m.signal(t, id, syscall.SIGSTOP, dashboard)
	return func() { m.signal(t, id, syscall.SIGCONT, dashboard) }
}

func (m machine) kill(t *testing.T, id launcher.ID, match func(string) bool) {
	t.Helper()
	m.signal(t, id, syscall.SIGKILL, match)
}

func (m machine) signal(t *testing.T, id launcher.ID, number syscall.Signal, match func(string) bool) {
	t.Helper()
	hit := 0
	for _, p := range m.processes(t, id) {
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

func (m machine) story(_ *testing.T, id launcher.ID) string {
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

// surfaces is every file of the run directory but the two that hold secrets, every file of the nodes' temporary
// directories, and the command lines of all processes of this machine.
func (m machine) surfaces(t *testing.T, id launcher.ID) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	walk := func(root string) {
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			name := filepath.Base(path)
			if err != nil || !d.Type().IsRegular() || name == keeper.TokenFile || name == keeper.SecretsFile {
				return nil // sockets, and what vanished meanwhile
			}
			out[path], _ = os.ReadFile(path)
			return nil
		})
	}
	walk(m.dir(id))
	for _, p := range m.processes(t, id) {
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
