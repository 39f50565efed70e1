//go:build linux

package slurmtest

import (
	"os"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/test/pace"
)

// TestGresAndHetJobs checks typed GPUs on some nodes, and a heterogeneous job as one step over a CPU and two GPU nodes.
func TestGresAndHetJobs(t *testing.T) {
	pace.Parallel(t)
	c := Start(t, Options{Nodes: 3, CPUOnly: 1, GPUs: []GPU{{"h100", 4}, {"a100", 2}}, Topology: "SwitchName=leaf Nodes=node[1-3]\n"})
	out := slurm(t, c, "srun", "-N1", "--gres=gpu:a100:2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $SLURM_GPUS_ON_NODE")
	if out != "4,5 2" {
		t.Errorf("GPUs in a step: %q, want the two a100", out)
	}
	if _, err := c.Slurm(t.Context(), "srun", "--gres=gpu:a100:3", "true"); err == nil {
		t.Error("3 of 2 GPUs were granted")
	}
	id, err := c.Submit(t.Context(), `#SBATCH -N1 -n1 -p main
#SBATCH hetjob
#SBATCH -N2 -n2 --ntasks-per-node=1 --gpus-per-node=h100:2
srun --het-group=0,1 -l sh -c 'echo $SLURM_NODEID of $SLURM_NNODES gpus=$SLURM_GPUS_ON_NODE'`)
	if err != nil {
		t.Fatal(err)
	}
	c.AwaitJob(t, id, "COMPLETED", "COMPLETED\nCOMPLETED")
	text, err := os.ReadFile(c.Dir + "/shared/job-" + id + ".out")
	for _, want := range []string{"0: 0 of 3 gpus=\n", "1: 1 of 3 gpus=2\n", "2: 2 of 3 gpus=2\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("heterogeneous step: no %q in %q (%v)", want, text, err)
		}
	}
	c.RequireClean(t)
}

// TestAccounting checks accounts, limits of a QOS, and the record of a job.
func TestAccounting(t *testing.T) {
	pace.Parallel(t)
	c := Start(t, Options{Accounting: true, GPUs: []GPU{{"h100", 8}}})
	for _, args := range [][]string{
		{"add", "qos", "short", "set", "MaxTRESPerUser=gres/gpu=2"},
		{"modify", "user", c.User(), "set", "qos+=short"},
	} {
		if err := c.Sacctmgr(args...); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Slurm(t.Context(), "srun", "-A", "nobodys", "true"); err == nil || !strings.Contains(err.Error(), "Invalid account") {
		t.Errorf("unknown account: %v", err)
	}
	id, err := c.Submit(t.Context(), "true", "--qos=short", "--gres=gpu:h100:4")
	if err != nil {
		t.Fatal(err)
	}
	c.Await(t, "the reason QOSMaxGRESPerUser", hasReason(c, id, "QOSMaxGRESPerUser"))
	slurm(t, c, "scancel", id)
	done, err := c.Submit(t.Context(), "exit 4", "-A", "users")
	if err != nil {
		t.Fatal(err)
	}
	c.Await(t, "sacct to know the exit code", sacctShows(c, done, "FAILED|4:0|users"))
	c.RequireClean(t)
}
