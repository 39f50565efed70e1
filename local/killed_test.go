package local_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/proc"
	"github.com/rayctl/rayctl/test/faults"
	"github.com/rayctl/rayctl/test/pace"
)

// A node's supervisor and its forked guard are killed at the same moment, and nobody else looks after a worker: the keeper does so at the end.
func TestSupervisorAndGuardKilled(t *testing.T) {
	pace.Parallel(t)
	state := t.TempDir()
	l := at(t, state)
	s := oneNode(t, "pair", "")
	s.Workers = []spec.WorkerGroup{{Name: "h"}, {Name: "w"}}
	t.Cleanup(func() { terminate(t, l, "pair") })
	if _, err := l.Launch(within(t), s, launcher.Payload{}); err != nil {
		t.Fatal(err)
	}
	until(t, l, "pair", func(st launcher.Status) bool { return st.Phase == runstate.Ready })
	var out bytes.Buffer // a worker's child in a session of its own, too
	code, err := l.Exec(within(t), "pair", launcher.ExecRequest{Stdout: &out, Stderr: &out, Command: []string{"python", "-c", `import ray, subprocess
ray.init()
@ray.remote(num_cpus=0, label_selector={"rayctl.io/group": "w"}, lifetime="detached", name="a")
class A:
    def start(self):
        return subprocess.Popen(["setsid", "sleep", "3600"]).pid
print("pid", ray.get(A.remote().start.remote()))`}})
	var pid int
	if _, scanErr := fmt.Sscanf(out.String()[max(0, strings.LastIndex(out.String(), "pid ")):], "pid %d", &pid); code != 0 || err != nil || scanErr != nil {
		t.Fatalf("exec: %d, %v, %v, %s", code, err, scanErr, out.String())
	}
	dir := reported(t, state, "pair", "w-0")
	var both []int
	for _, p := range processes(t, state, "pair") {
		if line := proc.CommandLine(p); strings.Contains(line, "/keeper.pyz node ") && strings.HasSuffix(line, " w-0") {
			both = append(both, p.PID)
		}
	}
	if len(both) != 2 {
		t.Fatalf("supervisor and guard: %v", both)
	}
	for _, end := range []func(int) error{faults.Stop, func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }} { // stopped first, so that neither sees the other's end
		for _, pid := range both {
			if err := end(pid); err != nil {
				t.Fatal(err)
			}
		}
	}
	for ctx := within(t); proc.Alive(pid, 0) || isThere(dir) || len(naming(t, dir)) > 0; time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("left: the worker's child %v, directory %v, processes %v", proc.Alive(pid, 0), isThere(dir), naming(t, dir))
		}
	}
	if st, err := l.List(within(t), launcher.Selector{}); err != nil || len(st) != 1 || st[0].Phase != runstate.Ready {
		t.Errorf("the head: %+v, %v", st, err)
	}
}

// reported is one node's temporary directory.
func reported(t *testing.T, state, name, node string) string {
	t.Helper()
	var report struct{ Directory string }
	b, err := os.ReadFile(filepath.Join(state, "clusters", name, "nodes", node, "report.json"))
	if err == nil {
		err = json.Unmarshal(b, &report)
	}
	if err != nil || report.Directory == "" {
		t.Fatalf("the directory of node %s: %v, %s", node, err, b)
	}
	return report.Directory
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// naming lists the command lines that name a directory.
func naming(t *testing.T, dir string) (lines []string) {
	t.Helper()
	table, err := proc.Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range table {
		if line := proc.CommandLine(p); !p.Zombie && strings.Contains(line, dir) {
			lines = append(lines, line)
		}
	}
	return lines
}

// All who would clean up are killed at once: the keeper, the supervisors and their guards. What Ray started is found by its markers.
func TestEverybodyKilled(t *testing.T) {
	pace.Parallel(t)
	state := t.TempDir()
	l := at(t, state)
	neighbour, victim := oneNode(t, "neighbour", ""), oneNode(t, "victim", "")
	for _, s := range []string{"neighbour", "victim"} {
		t.Cleanup(func() { terminate(t, l, s) })
	}
	if _, err := l.Launch(within(t), neighbour, launcher.Payload{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Launch(within(t), victim, launcher.Payload{}); err != nil {
		t.Fatal(err)
	}
	ray := func() (n int) {
		for _, p := range processes(t, state, "victim") {
			if strings.Contains(proc.CommandLine(p), "gcs_server") {
				n++
			}
		}
		return n
	}
	until(t, l, "victim", func(launcher.Status) bool { return ray() > 0 })
	dirs := nodeDirs(t, state, "victim")
	for _, p := range processes(t, state, "victim") {
		if line := proc.CommandLine(p); strings.Contains(line, "keeper.pyz keeper") || strings.Contains(line, "keeper.pyz node") || strings.Contains(line, "keeper.pyz guard") {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	last := until(t, l, "victim", func(launcher.Status) bool { return false })
	if last.Phase != runstate.Gone || last.Exit == nil || last.Exit.Cause != "lost" || last.Exit.Code != runstate.CodeLost {
		t.Errorf("last status: %+v", last)
	}
	nothingLeft(t, state, "victim", dirs...)
	if len(processes(t, state, "neighbour")) == 0 {
		t.Error("the neighbour was hit too")
	}
}
