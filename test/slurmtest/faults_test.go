//go:build linux

package slurmtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/pace"
)

func hasReason(c *Cluster, id, reason string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		out, err := c.Slurm(ctx, "squeue", "-h", "-j", id, "-o", "%r")
		return out == reason, err
	}
}

func sacctShows(c *Cluster, id, want string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		out, err := c.Slurm(ctx, "sacct", "-n", "-P", "-X", "-j", id, "-o", "State,ExitCode,Account")
		return out == want, err
	}
}

// TestPowerCut switches a node off under a job: Slurm notices, and all of its processes have ended. Switched on again it is idle.
func TestPowerCut(t *testing.T) {
	pace.Parallel(t) // it mostly waits for SlurmdTimeout
	c := Start(t, Options{Nodes: 2, Settings: map[string]string{"SlurmdTimeout": "3"}})
	id, err := c.Submit(t.Context(), "srun sleep 600", "-N2", "--no-requeue")
	if err != nil {
		t.Fatal(err)
	}
	c.Await(t, "the step on node2", func(context.Context) (bool, error) {
		processes, err := c.Processes("node2")
		for _, p := range processes {
			if strings.HasSuffix(p.Command, "sleep 600") {
				return true, err
			}
		}
		return false, errJoin(fmt.Errorf("there are %v", processes), err)
	})
	if err := c.PowerOffNode(2); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), 2, "true"); err == nil {
		t.Error("a command ran on a node that is off")
	}
	c.AwaitJob(t, id, "NODE_FAIL")
	if err := c.PowerOnNode(2); err != nil {
		t.Fatal(err)
	}
	c.AwaitNode(t, 2, "idle")
	if out := slurm(t, c, "srun", "-w", "node2", "hostname"); out != "node2" {
		t.Errorf("after the power came back: %q", out)
	}
	c.RequireClean(t)
}

// TestFaults is on one site: the controller is away, commands get signals, jobs are preempted, and at the end the cluster is killed.
func TestFaults(t *testing.T) {
	pace.Parallel(t)
	c := Start(t, Options{Nodes: 2, Preemption: true})
	t.Run("Controller", c.controllerAway)
	t.Run("CommandSignals", c.commandSignals)
	t.Run("Preemption", c.preemption)
	t.Run("Kill", c.kill)
}

// controllerAway stops, kills and starts slurmctld under a running job.
func (c *Cluster) controllerAway(t *testing.T) {
	id, err := c.Submit(t.Context(), "sleep 600")
	if err != nil {
		t.Fatal(err)
	}
	c.AwaitJob(t, id, "RUNNING")
	for _, stop := range []func() error{c.StopController, c.StopController, c.KillController} {
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if out, err := c.Slurm(t.Context(), "scontrol", "ping"); err == nil {
			t.Errorf("slurmctld answers although it is down: %s", out)
		}
		if err := c.StartController(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.AwaitJob(t, id, "RUNNING")
	}
	slurm(t, c, "scancel", id)
	c.RequireClean(t)
}

// commandSignals: signals to a client command reach the program itself, and SIGKILL leaves nothing.
func (c *Cluster) commandSignals(t *testing.T) {
	for _, place := range []string{"ctl", "node1"} {
		script := `trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.05; done`
		cmd := c.Command(t.Context(), "", "sh", "-c", script)
		if place != "ctl" {
			var err error
			if cmd, err = c.NodeCommand(t.Context(), place, "", "sleep", "600"); err != nil {
				t.Fatal(err)
			}
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if place == "ctl" {
			if _, err := stdout.Read(make([]byte, len("ready\n"))); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 7 {
				t.Errorf("a handled SIGTERM gave exit code %d", code)
			}
			continue
		}
		c.Await(t, "the command on "+place, func(context.Context) (bool, error) {
			processes, err := c.Processes(place)
			// At first the process is still one of the programs that start the command.
			return slices.ContainsFunc(processes, func(p Process) bool { return p.Command == "sleep 600" }), err
		})
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	c.RequireClean(t)
}

// TestUsers runs jobs of two users on one node; they see bound paths but not each other's homes.
func TestUsers(t *testing.T) {
	pace.Parallel(t)
	needs.Root(t)
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.MkdirAll(closed+"/open", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(closed+"/open/file", []byte("seen\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed+"/open", 0o755); err != nil {
		t.Fatal(err)
	}
	c := Start(t, Options{Users: []string{"alice", "bob"}, Binds: []string{closed + "/open"}})
	for _, user := range c.Options.Users {
		out, err := c.Command(t.Context(), user, "srun", "-n1", "sh", "-c", "id -un; pwd; cat "+closed+"/open/file").Output()
		if want := user + "\n" + c.Home(user) + "\nseen\n"; err != nil || string(out) != want {
			t.Errorf("job of %s: %v: %q, want %q", user, err, out, want)
		}
	}
	if err := c.Command(t.Context(), "alice", "ls", c.Home("bob")).Run(); err == nil {
		t.Error("alice can read bob's home")
	}
	c.RequireClean(t)
}

// TestNetwork checks the network outside of the cluster: by default connections fail at once, on request they hang.
func TestNetwork(t *testing.T) {
	pace.Parallel(t)
	const script = `timeout 1.5 bash -c 'exec 3<>/dev/tcp/169.254.169.254/80'; echo $?; getent ahostsv4 node1 | head -n1 | cut -d' ' -f1`
	for name, want := range map[string]string{"fast": "1\n" + nodeAddress(1), "freeze": "124\n" + nodeAddress(1)} {
		t.Run(name, func(t *testing.T) {
			c := Start(t, Options{MetadataFreeze: name == "freeze"})
			if out, err := c.Exec(t.Context(), 1, script); out != want {
				t.Errorf("connecting to the metadata address: %q, want %q (%v)", out, want, err)
			}
		})
	}
}

// kill kills the cluster's first process: everything ends.
func (c *Cluster) kill(t *testing.T) {
	if _, err := c.Submit(t.Context(), "sleep 600"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(c.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	requireNothingMentions(t, c.Dir)
}

// requireNothingMentions waits until no command line has the cluster's directory.
func requireNothingMentions(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := await(ctx, queryInterval, "the cluster's processes to end", func() (bool, error) {
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range files {
			text, _ := os.ReadFile(file)
			if strings.Contains(string(text), dir+"/") {
				return false, nil
			}
		}
		return true, err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPlainUser runs the basic tests again as an unprivileged user.
func TestPlainUser(t *testing.T) {
	pace.Parallel(t)
	needs.Root(t) // to become that user; without root the other tests already ran as one
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	for dir := cache; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root, err := cacheRoot()
	if err != nil {
		t.Fatal(err)
	}
	copied := exec.CommandContext(t.Context(), "cp", "-a", filepath.Join(root, DefaultVersion), self, cache+"/")
	if err := os.MkdirAll(cache+"/slurm", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := runQuiet(copied); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(cache, DefaultVersion), cache+"/slurm/"+DefaultVersion); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(cache+"/slurm", nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(cache, filepath.Base(self)),
		"-test.run", "TestVersions/"+DefaultVersion+"|TestPowerCut", "-test.skip", "//Slurmrestd", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "RAYCTL_TEST_CACHE="+cache, "HOME="+cache)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS") < 4 {
		t.Errorf("as a plain user: %v\n%s", err, out)
	}
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
