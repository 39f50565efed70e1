//go:build linux

package slurmtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/test/slurmtest/internal/agent"
)

// env is the environment of daemons and of the testbed's own commands.
func (c *Cluster) env() []string {
	return []string{"PATH=" + SearchPath, "SLURM_CONF=" + c.Conf(), "LC_ALL=C.UTF-8", "HOME=" + c.users[0].Home}
}

// SearchPath has Slurm's commands first and then the machine's.
const SearchPath = prefix + "/clients:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Conf is the path of slurm.conf, for SLURM_CONF.
func (c *Cluster) Conf() string { return c.Dir + "/etc/slurm.conf" }

// spawn starts a daemon on a node, or with the controller if node is empty.
func (c *Cluster) spawn(node, name string, extraEnv []string, argv ...string) error {
	log := name
	if node != "" {
		log += "-" + node
	}
	argv[0] = prefix + "/daemons/" + argv[0]
	args := agent.SpawnArgs{Node: node, Name: name, Argv: argv, Env: append(c.env(), extraEnv...), Log: filepath.Join(c.Dir, "log", log+".out")}
	if err := c.agent.Call("Agent.Spawn", args, nil); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	return nil
}

// run runs a program next to the controller as the administrator.
func (c *Cluster) run(argv ...string) (string, error) {
	var reply agent.RunReply
	if err := c.agent.Call("Agent.Run", agent.SpawnArgs{Argv: argv, Env: c.env()}, &reply); err != nil {
		return "", fmt.Errorf("running %s: %w", argv[0], err)
	}
	if reply.Code != 0 {
		return reply.Output, fmt.Errorf("%s: exit code %d: %s", strings.Join(argv, " "), reply.Code, strings.TrimSpace(reply.Output))
	}
	return reply.Output, nil
}

func client(name string) string { return prefix + "/clients/" + name }

func (c *Cluster) startMunge(ctx context.Context) error {
	socket := c.Dir + "/run/munge.sock"
	argv := []string{"munged", "-F", "--key-file=" + c.Dir + "/etc/munge.key", "--socket=" + socket, "--pid-file=" + c.Dir + "/run/munged.pid",
		"--log-file=" + c.Dir + "/log/munged.log", "--seed-file=" + c.Dir + "/run/munged.seed"}
	if os.Getuid() != 0 {
		argv = append(argv, "--force") // "/" belongs to an unmapped user here
	}
	if err := c.spawn("", "munged", nil, argv...); err != nil {
		return err
	}
	return await(ctx, startInterval, "munged's socket", func() (bool, error) {
		_, err := os.Stat(socket)
		return err == nil, nil
	})
}

// StartController starts slurmctld and returns when it answers.
func (c *Cluster) StartController(ctx context.Context) error {
	if err := c.spawn("", "slurmctld", nil, "slurmctld", "-D", "-f", c.Conf()); err != nil {
		return err
	}
	return await(ctx, startInterval, "slurmctld to answer", func() (bool, error) {
		if !c.listens(ctx, fmt.Sprintf("ctl:%d", ctldPort)) {
			return false, nil
		}
		out, err := c.run(client("scontrol"), "ping")
		return err == nil && strings.Contains(out, "UP"), nil
	})
}

// StopController ends slurmctld like an administrator does: slurmctld saves its state. It has ended on return.
func (c *Cluster) StopController() error {
	return c.stop("", "slurmctld", syscall.SIGTERM)
}

// KillController kills slurmctld: up to 5 s of its state are lost.
func (c *Cluster) KillController() error {
	return c.stop("", "slurmctld", syscall.SIGKILL)
}

// KillSlurmd kills a node's slurmd. Jobs on the node continue, as after a crash; StartSlurmd starts it again.
func (c *Cluster) KillSlurmd(i int) error {
	return c.stop(nodeName(i), "slurmd", syscall.SIGKILL)
}

// StartSlurmd starts a node's slurmd after KillSlurmd.
func (c *Cluster) StartSlurmd(i int) error { return c.startSlurmd(nodeName(i)) }

func (c *Cluster) stop(node, name string, sig syscall.Signal) error {
	if err := c.agent.Call("Agent.Stop", agent.StopArgs{Node: node, Name: name, Signal: sig}, nil); err != nil {
		return fmt.Errorf("stopping %s: %w", name, err)
	}
	return nil
}

func (c *Cluster) startSlurmd(node string) error {
	return c.spawn(node, "slurmd", nil, "slurmd", "-D", "-N", node, "-f", c.Conf(), "-d", prefix+"/daemons/slurmstepd")
}

// PowerOffNode cuts the power of node i: all of its processes die at once, and its network is disconnected.
func (c *Cluster) PowerOffNode(i int) error {
	name := nodeName(i)
	c.mu.Lock()
	delete(c.nodes, name)
	c.mu.Unlock()
	if err := c.agent.Call("Agent.RemoveNode", name, nil); err != nil {
		return fmt.Errorf("switching off %s: %w", name, err)
	}
	return nil
}

// Separate lets node i and node j not reach each other, as where a site's network keeps partitions apart, until the function that it returns is called.
func (c *Cluster) Separate(ctx context.Context, i, j int) (func() error, error) {
	route := func(ctx context.Context, what string) error {
		_, err := c.Exec(ctx, i, fmt.Sprintf("%s/daemons/ip route %s unreachable %s/32", prefix, what, nodeAddress(j)))
		return err
	}
	return func() error { return route(context.WithoutCancel(ctx), "del") }, route(ctx, "add")
}

// PowerOnNode starts node i again with empty /tmp, /run and /dev/shm; slurmd registers by itself.
func (c *Cluster) PowerOnNode(i int) error {
	if err := c.makeComputeNode(i); err != nil {
		return err
	}
	return c.startSlurmd(nodeName(i))
}

// awaitIdle waits until all nodes are ready for jobs.
func (c *Cluster) awaitIdle(ctx context.Context) error {
	var states string
	err := await(ctx, startInterval, "nodes to be idle", func() (bool, error) {
		out, err := c.run(client("sinfo"), "-h", "-N", "-o", "%n %T")
		if err != nil {
			return false, err
		}
		states = out
		idle := map[string]bool{}
		for line := range strings.Lines(out) {
			if name, ok := strings.CutSuffix(strings.TrimSpace(line), " idle"); ok {
				idle[name] = true
			}
		}
		return len(idle) == c.Options.Nodes, nil
	})
	if err != nil {
		return fmt.Errorf("%w\n%s\n%s", err, states, c.logTail("slurmd-node1.out", 5))
	}
	return nil
}

// startInterval is the time between checks of a starting daemon.
const startInterval = 15 * time.Millisecond

// await checks a condition at intervals until it holds or ctx ends. In the second case it returns the last error before the end.
func await(ctx context.Context, interval time.Duration, what string, condition func() (bool, error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last error
	for {
		ok, err := condition()
		if ok {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return errJoin(fmt.Errorf("waiting for %s: %w", what, ctx.Err()), last)
		case <-ticker.C:
		}
	}
}

func errJoin(err, cause error) error {
	if cause == nil {
		return err
	}
	return fmt.Errorf("%w (last: %w)", err, cause)
}

// listens reports whether an address of the cluster accepts connections.
func (c *Cluster) listens(ctx context.Context, address string) bool {
	conn, err := c.Dial(ctx, address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// nobody runs slurmrestd if the test is root: slurmrestd refuses root and SlurmUser.
const nobody = 65534

// startRest starts slurmrestd with JWT authentication on the controller.
func (c *Cluster) startRest(ctx context.Context) error {
	plugin := "openapi/slurmctld"
	if c.Options.Version == OldestVersion {
		plugin = "openapi/v0.0.38"
	}
	if c.Options.Accounting && c.Options.Version != OldestVersion {
		plugin += ",openapi/slurmdbd"
	}
	env := []string{"SLURM_JWT=daemon"} // makes it accept tokens
	if os.Getuid() != 0 && c.Options.Version == "24.11" {
		env = append(env, "SLURMRESTD_SECURITY=disable_user_check")
	}
	args := agent.SpawnArgs{Name: "slurmrestd", Env: append(c.env(), env...), Log: c.Dir + "/log/slurmrestd.out",
		Argv: []string{prefix + "/daemons/slurmrestd", "-s", plugin, "-a", "rest_auth/jwt", fmt.Sprintf("%s:%d", ctlAddress, restPort)}}
	if os.Getuid() == 0 {
		args.UID = nobody
	}
	if err := c.agent.Call("Agent.Spawn", args, nil); err != nil {
		return fmt.Errorf("starting slurmrestd: %w", err)
	}
	err := await(ctx, startInterval, "slurmrestd", func() (bool, error) { return c.listens(ctx, c.RestAddress()), nil })
	if err != nil {
		return fmt.Errorf("%w\n%s", err, c.logTail("slurmrestd.out", 5))
	}
	return nil
}

// RestAddress is slurmrestd's host and port inside the cluster: for Dial, Bridge, or commands in the cluster.
func (c *Cluster) RestAddress() string { return fmt.Sprintf("ctl:%d", restPort) }

// Token makes a JSON web token for a user, valid for an hour.
func (c *Cluster) Token(user string) (string, error) {
	out, err := c.run(client("scontrol"), "token", "username="+user, "lifespan=3600")
	if err != nil {
		return "", err
	}
	_, token, ok := strings.Cut(strings.TrimSpace(out), "SLURM_JWT=")
	if !ok {
		return "", fmt.Errorf("scontrol token printed %q", out)
	}
	return token, nil
}

// HangSlurmd stops a node's slurmd with SIGSTOP, as one that hangs on a disk, until the function that it returns is called. Slurm takes the node for lost after
// SlurmdTimeout, and cannot end what runs on it.
func (c *Cluster) HangSlurmd(ctx context.Context, i int) (func() error, error) {
	send := func(ctx context.Context, signal string) error {
		_, err := c.Exec(ctx, i, fmt.Sprintf("kill -%s $(cat %s/run/slurmd-%s.pid)", signal, c.Dir, nodeName(i)))
		return err
	}
	return func() error { return send(context.WithoutCancel(ctx), "CONT") }, send(ctx, "STOP")
}
