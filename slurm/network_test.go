//go:build linux

package slurm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestNetwork is a site whose nodes have two networks, no default route, and names that stand for loopback.
func TestNetwork(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t, slurmtest.Options{Nodes: 2, Storage: true, LoopbackNames: true, Partitions: []slurmtest.Partition{{Name: "main", Default: true}, {Name: "cpu", Nodes: "node1"}}})
	t.Run("Unclear", b.networkUnclear)
	t.Run("Partitions", b.partitionsApart)
	t.Run("NotThere", b.networkNotThere)
	t.Run("Chosen", b.networkChosen)
	t.Run("PortsTaken", b.portsTaken)
	b.leavesNothing(t)
}

// onBoth is a cluster with a Ray node on each of the two nodes.
func (b *bed) onBoth(name, entrypoint string, section slurmspec.Section) *spec.ClusterSpec {
	s := b.named(name, entrypoint)
	one := 1
	s.Workers = []spec.WorkerGroup{{Name: "w", Replicas: &one, NodeResources: smallNode()}}
	section.Nodelist = "node[1-2]"
	s.Sections = slurmspec.In(&section)
	return s
}

// networkUnclear: loopback is for clusters of one node; for others there is a sentence before Ray starts, and in doctor.
func (b *bed) networkUnclear(t *testing.T) {
	const words = "node1 has 10.77.1.1 on eth0, 10.78.1.1 on eth1, and neither its name nor a default route shows which of them other nodes reach: set slurm.network"
	s := b.onBoth("unclear", "true", slurmspec.Section{})
	r := b.begin(t, s, launcher.Payload{})
	r.ended(runstate.CodeStartFailed, "start-failed", words)
	r.forgotten()
	found := func(section slurmspec.Section) (out []string) {
		whole := true
		section.Exclusive = &whole
		s.Sections = slurmspec.In(&section)
		for _, c := range b.launcher().Check(t.Context(), s) {
			if c.Name == "address of node1" || c.Name == "slurm.ports on node1" || !c.OK {
				out = append(out, fmt.Sprintf("%s %v: %s", c.Name, c.OK, c.Detail))
			}
		}
		return out
	}
	for _, c := range []struct {
		section slurmspec.Section
		want    []string
	}{
		{slurmspec.Section{}, []string{"address of node1 false: " + words}},
		{slurmspec.Section{Network: "eth1", Ports: "20000-20999"}, []string{"address of node1 true: 10.78.1.1", "slurm.ports on node1 true: 1000 of 1000 ports are free"}},
		{slurmspec.Section{Network: "10.9.0.0/16"}, []string{"address of node1 false: node1 has no address in slurm.network 10.9.0.0/16; it has 10.77.1.1 on eth0, 10.78.1.1 on eth1"}},
	} {
		if got := found(c.section); !slices.Equal(got, c.want) {
			t.Errorf("doctor finds %q, want %q", got, c.want)
		}
	}
	s = b.named("alone", "echo $(hostname)")
	s.Job.Cwd, s.Job.CwdOptional = "/dev/shm/only here", true // as of a command that is called where the nodes have no such directory
	alone := b.begin(t, s, launcher.Payload{})
	const note = "rayctl: the directory /dev/shm/only here, in which rayctl was called, does not exist here: the job starts in another one, unless job.cwd or job.workingDir names one\n"
	if alone.ended(0, "succeeded", ""); alone.out.String() != note+"node1\n" {
		t.Errorf("output %q", alone.out.String())
	}
	alone.forgotten()
}

// partitionsApart: doctor tries whether the head's partition and the workers' reach each other, where they are two. Launches that follow are refused for what it found,
// before anything is allocated. Without it, a run ends as soon as its gang has found the same.
func (b *bed) partitionsApart(t *testing.T) {
	s := b.onBoth("apart", "echo never", slurmspec.Section{Network: "eth0", Ports: "20000-20255"})
	s.Head.Early = true
	slurmspec.Of(s).Nodelist, s.Workers[0].Sections = "", slurmspec.GroupIn(&slurmspec.Group{Nodelist: "node2"})
	find := func(name string) (found []launcher.Check) {
		for _, c := range b.launcher().Check(t.Context(), s) {
			if c.Name == name {
				found = append(found, c)
			}
		}
		return found
	}
	const both, shared = "from partition cpu to the default partition", "the early head uses the workers' partition"
	if c := find("head"); len(c) != 1 || !c[0].OK || !strings.HasPrefix(c[0].Detail, shared) || !strings.Contains(c[0].Detail, "head.slurm.partition chooses another partition") || len(find(both)) > 0 {
		t.Errorf("an early head in the workers' partition: %+v", c)
	}
	s.Head.Sections = slurmspec.GroupIn(&slurmspec.Group{Partition: "main"}) // which is the default
	if notes := b.notesOf(t, s); len(notes) != 1 || !strings.HasPrefix(notes[0], shared) {
		t.Errorf("a launch says of that: %q", notes)
	}
	s.Head.Sections = slurmspec.GroupIn(&slurmspec.Group{Partition: "cpu"})
	everywhere := s.Ray.Python
	s.Ray.Python = "/dev/shm/rayctl-python" // a node's own
	if _, err := b.Exec(t.Context(), 1, `printf '#!/bin/sh\nexec %s "$@"\n' `+shellescape.Quote(everywhere)+` >/dev/shm/rayctl-python && chmod +x /dev/shm/rayctl-python`); err != nil {
		t.Fatal(err)
	}
	if bad := failing(b.launcher().Check(t.Context(), s)); !slices.Equal(bad, []string{"python on node2"}) {
		t.Errorf("where the workers' partition has no Python doctor finds %q", bad)
	}
	s.Ray.Python = everywhere
	if _, err := b.Exec(t.Context(), 1, "rm /dev/shm/rayctl-python"); err != nil {
		t.Error(err)
	}
	restore, err := b.Separate(t.Context(), 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	const fault = "node2 (10.77.1.2) cannot connect to node1 (10.77.1.1): "
	if c := find(both); len(c) != 1 || c[0].OK || !strings.HasPrefix(c[0].Detail, fault) || !strings.Contains(c[0].Hint, "slurm.network") {
		t.Errorf("where they do not: %+v", c)
	}
	for what, ask := range map[string]func() error{
		"launch": func() error {
			_, err := b.launcher().Launch(t.Context(), s, launcher.Payload{})
			return err
		},
		"--recreate": func() error { return b.launcher().Validate(t.Context(), s, launcher.Payload{}) },
	} {
		if err := ask(); launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), fault) || !strings.Contains(err.Error(), "`rayctl doctor` found at") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v (code %d)", what, err, launcher.ExitCode(err))
		}
	}
	b.nothingLeft(t, "apart")
	other := spec.For(s, s.Launcher)
	other.Name, slurmspec.Of(other).Network = "found-apart", "eth0,eth1" // doctor has not tried these
	other.Job.Restarts.NodeFailure = 3
	r := b.begin(t, other, launcher.Payload{})
	if receipt := r.ended(runstate.CodeStartFailed, "start-failed", "node w-0: node2 cannot connect to the head (10.77.1.1, port "); len(receipt.Attempts) != 1 || receipt.Exit.Retryable ||
		!strings.HasSuffix(receipt.Exit.Message, "`rayctl doctor` tests whether they connect") || receipt.Durations.Starting > 60 {
		t.Errorf("%+v, %+v, %+v", receipt.Exit, receipt.Attempts, receipt.Durations)
	}
	r.forgotten()
	if err := restore(); err != nil {
		t.Error(err)
	}
	if c := find(both); len(c) != 1 || !c[0].OK || c[0].Detail != "node1 (10.77.1.1) and node2 (10.77.1.2) reach each other" {
		t.Errorf("where they do: %+v", c)
	}
	if err := b.launcher().Validate(t.Context(), s, launcher.Payload{}); err != nil {
		t.Errorf("after doctor has found that they do: %v", err)
	}
}

// notesOf is what a launch says before it asks for anything; it is interrupted then.
func (b *bed) notesOf(t *testing.T, s *spec.ClusterSpec) (notes []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := b.launcher().Launch(ctx, s, launcher.Payload{Warn: func(text string) {
		notes = append(notes, text)
		cancel()
	}})
	if launcher.ExitCode(err) != runstate.CodeInterrupted {
		t.Errorf("%v", err)
	}
	b.nothingLeft(t, s.Name)
	return notes
}

// networkNotThere: the head's node has an address in the network, the worker's has none.
func (b *bed) networkNotThere(t *testing.T) {
	r := b.begin(t, b.onBoth("notthere", "true", slurmspec.Section{Network: slurmtest.StorageAddress(1) + "/32"}), launcher.Payload{})
	r.ended(runstate.CodeStartFailed, "start-failed", "node w-0: node2 has no address in slurm.network 10.78.1.1/32; it has 10.77.1.2 on eth0, 10.78.1.2 on eth1")
	r.forgotten()
}

// whereNodesAre prints the addresses of Ray's nodes and of an actor on each, and then waits for a file. As rank 0 it
// first meets the other one at MASTER_ADDR, and prints both addresses of that connection, too.
const whereNodesAre = `import json, os, socket, sys, time, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
@ray.remote(num_cpus=0)
class Actor:
    def where(self):
        return ray.util.get_node_ip_address()
ray.init(log_to_driver=False, logging_level="ERROR")
found, actors = {}, []
if "RANK" in os.environ:
    master = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if os.environ["RANK"] == "0":
        other = socket.create_server(master).accept()[0]
        found["master"] = [other.getsockname()[0], other.getpeername()[0]]
    else:
        while True:
            try:
                other = socket.create_connection(master)
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
for n in ray.nodes():
    actors.append(Actor.options(scheduling_strategy=On(n["NodeID"], soft=False)).remote())
    found[n["NodeName"]] = [n["NodeManagerAddress"], ray.get(actors[-1].where.remote())]
print(json.dumps(found), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.2)
`

// networkChosen: two clusters at the same time on the same nodes, one of them with ranks. All of Ray and what ranks connect to is in the second network, and whatever their processes
// listen on is a port of the range.
func (b *bed) networkChosen(t *testing.T) {
	g := b.waitFile(t)
	var runs []*watchedRun
	for i, network := range []string{"10.78.0.0/16", "eth1"} {
		s := b.onBoth(fmt.Sprintf("chosen%d", i), "python -c "+shellescape.Quote(whereNodesAre)+" "+g.path, slurmspec.Section{Network: network, Ports: "20000-20255", Expose: "node"})
		s.Ray.Version = "2.60.0"
		if i == 1 {
			s.Job.Launch = spec.Launch{PerNode: 1, Groups: []string{"head", "w"}}
		}
		runs = append(runs, b.begin(t, s, launcher.Payload{}))
	}
	for i, r := range runs {
		r.until("running", jobRuns)
		b.copied(t, launcher.ID(fmt.Sprintf("chosen%d", i)), "}\n")
	}
	for node := 1; node <= 2; node++ {
		if others := b.onFirstNetwork(t, node); len(others) > 0 {
			t.Errorf("on node%d: %q", node, others)
		}
		ports := b.listening(t, node)
		if len(ports) < 2*7 { // a raylet has two, its agents four, the actor one
			t.Errorf("on node%d only %v listen", node, ports)
		}
		for port, line := range ports {
			if port < 20000 || port > 20255 {
				t.Errorf("on node%d: %s", node, line)
			}
		}
	}
	g.create()
	for i, r := range runs {
		r.ended(0, "succeeded", "")
		out, found := r.out.Bytes(), map[string][]string{}
		if i == 1 {
			var first bytes.Buffer
			if _, err := driverio.NewRankOutput(&first, 0, false).Write(out); err != nil {
				t.Fatal(err)
			}
			out = first.Bytes()
		}
		if err := json.Unmarshal(out, &found); err != nil {
			t.Fatalf("%v in %q", err, r.out.String())
		}
		if want := []string{slurmtest.StorageAddress(1), slurmtest.StorageAddress(2)}; i == 1 && !slices.Equal(found["master"], want) {
			t.Errorf("ranks meet at %q, want %q", found["master"], want)
		}
		for name, i := range map[string]int{"head-0": 1, "w-0": 2} {
			if want := slurmtest.StorageAddress(i); !slices.Equal(found[name], []string{want, want}) {
				t.Errorf("%s is at %q, want %s", name, found[name], want)
			}
		}
		r.forgotten()
	}
}

// ofSlurm matches what Slurm's own programs listen on: they are not the cluster's.
var ofSlurm = regexp.MustCompile(`users:\(\("(slurmd|slurmstepd|srun)"`)

// onFirstNetwork are connections of a node's processes, Slurm's aside, on the network that is Slurm's own.
func (b *bed) onFirstNetwork(t *testing.T, node int) (found []string) {
	t.Helper()
	out, err := b.Exec(t.Context(), node, "ss -tnpH")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "10.77.") && strings.Contains(line, "users:") && !ofSlurm.MatchString(line) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// listening are the ports on which a node's processes listen, Slurm's aside, with the line of ss for each.
func (b *bed) listening(t *testing.T, node int) map[int]string {
	t.Helper()
	out, err := b.Exec(t.Context(), node, "ss -ltnpH")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]string{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || ofSlurm.MatchString(line) {
			continue
		}
		port, err := strconv.Atoi(fields[3][strings.LastIndex(fields[3], ":")+1:])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		found[port] = strings.TrimSpace(line)
	}
	return found
}

// portsTaken: a cluster for which another one on its node has left no ports does not start, and the error has that reason. The other one can start again with those that it has.
func (b *bed) portsTaken(t *testing.T) {
	g := b.waitFile(t)
	one := func(name, entrypoint string) *watchedRun {
		s := b.named(name, entrypoint)
		s.Sections = slurmspec.In(&slurmspec.Section{Ports: "21000-21063", Group: slurmspec.Group{Nodelist: "node1"}})
		s.Job.Restarts.NodeFailure = 1
		return b.begin(t, s, launcher.Payload{})
	}
	first := one("first", g.wait())
	first.until("running", jobRuns)
	second := one("second", "true")
	second.ended(runstate.CodeStartFailed, "start-failed", "of the ports 21000-21063 (slurm.ports) are free here and ")
	second.forgotten()
	b.killHead(t, first.id)
	g.create()
	if n := len(first.ended(0, "succeeded", "").Attempts); n != 2 {
		t.Errorf("%d attempts", n)
	}
	first.forgotten()
}
