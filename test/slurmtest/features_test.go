//go:build linux

package slurmtest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/test/needs"
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

// preemption: a job in the high partition requeues one in the low partition.
func (c *Cluster) preemption(t *testing.T) {
	low, err := c.Submit(t.Context(), "sleep 600", "--exclusive", "--nodes=2")
	if err != nil {
		t.Fatal(err)
	}
	c.AwaitJob(t, low, "RUNNING")
	high, err := c.Submit(t.Context(), "sleep 600", "--exclusive", "--nodes=2", "-p", "high")
	if err != nil {
		t.Fatal(err)
	}
	c.AwaitJob(t, high, "RUNNING")
	c.AwaitJob(t, low, "PENDING")
	slurm(t, c, "scancel", low, high)
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

// slurmrestd is reached through a bridge, with a token.
func (c *Cluster) slurmrestd(t *testing.T) {
	needs.Root(t)
	bridge, err := c.Bridge(t.Context(), c.RestAddress())
	if err != nil {
		t.Fatal(err)
	}
	defer bridge.Close()
	token, err := c.Token(c.User())
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{"22.05": "v0.0.38", "24.11": "v0.0.42", "26.05": "v0.0.45"}
	url := fmt.Sprintf("http://%s/slurm/%s/nodes/", bridge.Addr, paths[c.Options.Version])
	if c.Options.Version == OldestVersion {
		url = strings.TrimSuffix(url, "/")
	}
	if status, body := get(t, url, c.User(), token); status != http.StatusOK || !strings.Contains(body, `"node1"`) {
		t.Errorf("GET %s: %d %s", url, status, body)
	}
	if status, _ := get(t, url, c.User(), "wrong"); status == http.StatusOK {
		t.Error("a wrong token was accepted")
	}
}

func get(t *testing.T, url, user, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-SLURM-USER-NAME", user)
	req.Header.Set("X-SLURM-USER-TOKEN", token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// login is by ssh to the login node, directly and over the gateway, with strict host keys; a connection is cut.
func (c *Cluster) login(t *testing.T) {
	needs.Program(t, "ssh", "openssh-client")
	for _, host := range []string{"login", "inner"} {
		out, err := ssh(t, c, host, "hostname; srun -N1 hostname").CombinedOutput()
		if err != nil || string(out) != "login\nnode1\n" {
			t.Errorf("ssh %s: %v: %s", host, err, out)
		}
	}
	wrong := ssh(t, c, "-oUserKnownHostsFile="+c.Login.KnownHosts+".wrong", "login", "true")
	if out, err := wrong.CombinedOutput(); err == nil || !strings.Contains(string(out), "HOST IDENTIFICATION HAS CHANGED") {
		t.Errorf("wrong host key: %v: %s", err, out)
	}
	c.RequireClean(t)
	cutSession(t, c)
	c.RequireClean(t)
}

// cutSession breaks a session in the middle and expects ssh's own exit code.
func cutSession(t *testing.T, c *Cluster) {
	t.Helper()
	session := ssh(t, c, "login", "echo ready; cat")
	stdin, err := session.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := session.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	c.Login.Direct.CutConnections()
	if err := session.Wait(); err == nil || session.ProcessState.ExitCode() != 255 {
		t.Errorf("a cut session ended with %v", err)
	}
	_ = stdin.Close()
	c.Login.Direct.Refuse(true)
	if err := ssh(t, c, "login", "true").Run(); err == nil {
		t.Error("a refused connection worked")
	}
	c.Login.Direct.Refuse(false)
	if err := ssh(t, c, "login", "true").Run(); err != nil {
		t.Errorf("after refusing: %v", err)
	}
}

func ssh(t *testing.T, c *Cluster, args ...string) *exec.Cmd {
	return exec.CommandContext(t.Context(), "ssh", append([]string{"-F", c.Login.Config}, args...)...)
}
