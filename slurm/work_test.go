//go:build linux

package slurm_test

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// work is on one cluster of two unlike nodes: commands on each, the sizes given to Ray, connections to a node, and a worker that dies, which is
// reported by name while the driver goes on.
func (b *bed) work(t *testing.T) {
	s := b.twoGroups()
	s.Name, s.Job.Entrypoint = "work", "sleep 600"
	l := b.launcher()
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.down(t, l, id)
	running := func(st launcher.Status) bool { return st.Job != nil && st.Job.State == runstate.JobRunning }
	st := watchUntil(t, l, id, running)
	if len(st.Nodes) != 2 || st.Nodes[0].Host == st.Nodes[1].Host {
		t.Errorf("nodes: %+v", st.Nodes)
	}
	for _, node := range st.Nodes {
		var out bytes.Buffer
		code, err := l.Exec(t.Context(), id, launcher.ExecRequest{Node: node.Name, Command: []string{"sh", "-c", `hostname; echo "it's $1"; exit 5`, "sh", "$(id)"}, Stdout: &out})
		if err != nil || code != 5 || out.String() != node.Host+"\nit's $(id)\n" {
			t.Errorf("exec on %s: %q, code %d, %v", node.Name, out.String(), code, err)
		}
	}
	var out, said bytes.Buffer
	program := `import ray; ray.init(logging_level="ERROR"); print(sorted((n["NodeName"], int(n["Resources"]["CPU"]), int(n["Resources"]["memory"]) >> 20) for n in ray.nodes()))`
	if _, err := l.Exec(t.Context(), id, launcher.ExecRequest{Command: []string{"python", "-c", program}, Stdout: &out, Stderr: &said}); err != nil {
		t.Error(err)
	}
	if want := "[('a-0', 1, 1024), ('b-0', 2, 1024)]\n"; out.String() != want {
		t.Errorf("Ray has %q, want %q; %s", out.String(), want, said.String())
	}
	b.execs(t, id)
	b.killRaylet(t, st.Nodes[1].Host)
	told := watchUntil(t, l, id, func(st launcher.Status) bool {
		for _, e := range st.Timeline {
			if e.Kind == "node" && e.Code == "b-0" {
				return true
			}
		}
		return false
	})
	if !running(told) || told.Phase != runstate.Ready {
		t.Errorf("the driver does not go on: %s, %+v", told.Phase, told.Job)
	}
	// Its supervisor may have started it again before Ray saw its loss: it is another node of Ray then.
	if before, now := st.Nodes[1], told.Nodes[1]; told.Nodes[0].State != runstate.NodeAlive || now.State != runstate.NodeDead && now.NodeID == before.NodeID {
		t.Errorf("states of the nodes: %+v", told.Nodes)
	}
}

// killRaylet kills the one raylet on a node.
func (b *bed) killRaylet(t *testing.T, host string) {
	t.Helper()
	all, err := b.Processes(host)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		program, _, _ := strings.Cut(p.Command, " ")
		if strings.HasSuffix(program, "/raylet/raylet") {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Error("there is no raylet on " + host)
}
