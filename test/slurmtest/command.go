//go:build linux

package slurmtest

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Command prepares a command of a user next to the controller, with Slurm's commands on PATH, in the user's home. The
// process of the returned command is the program itself, so that signals and kills reach only the program. It is not one of
// the cluster's processes. An empty user is the user who runs the test. Its Env may be extended, not replaced.
func (c *Cluster) Command(ctx context.Context, user, name string, args ...string) *exec.Cmd {
	u := c.account(user)
	argv := append(c.enter(c.ctlPID, false), c.become(u, false)...)
	argv = append(argv, "env", "-C", u.Home, "--", name)
	cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], args...)...)
	cmd.Env = c.userEnv(u)
	return cmd
}

// NodeCommand prepares a command of a user on a node: "node2", "login". It dies with the node, and when its parent is killed.
func (c *Cluster) NodeCommand(ctx context.Context, node, user, name string, args ...string) (*exec.Cmd, error) {
	c.mu.Lock()
	pid, on := c.nodes[node]
	c.mu.Unlock()
	if !on {
		return nil, fmt.Errorf("%s is switched off", node)
	}
	u := c.account(user)
	argv := append(c.enter(pid, true), c.become(u, true)...)
	argv = append(argv, "env", "-C", u.Home, "--", name)
	cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], args...)...)
	cmd.Env = c.userEnv(u)
	return cmd, nil
}

// Exec runs a shell script as the test's user on node i and returns its output.
func (c *Cluster) Exec(ctx context.Context, i int, script string) (string, error) {
	cmd, err := c.NodeCommand(ctx, nodeName(i), "", "sh", "-c", script)
	if err != nil {
		return "", err
	}
	return output(cmd)
}

// Slurm runs one of Slurm's commands as the test's user and returns its output, without the final newline.
func (c *Cluster) Slurm(ctx context.Context, name string, args ...string) (string, error) {
	return output(c.Command(ctx, "", name, args...))
}

// Home is a user's home directory inside the cluster; an empty name is the user who runs the test.
func (c *Cluster) Home(user string) string { return c.account(user).Home }

// User is the name, inside the cluster, of the user who runs the test.
func (c *Cluster) User() string { return c.users[0].Name }

func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[slices.Index(cmd.Args, "env"):], " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimRight(stdout.String(), "\n"), err
}

func (c *Cluster) account(user string) account {
	for _, u := range c.users {
		if u.Name == user {
			return u
		}
	}
	return c.users[0]
}

// enter is the prefix of a command line that enters namespaces. Without the process namespace nsenter does not fork.
func (c *Cluster) enter(pid int, processes bool) []string {
	argv := []string{"nsenter", "--target", strconv.Itoa(pid), "--mount", "--net", "--uts", "--ipc"}
	if processes {
		argv = append(argv, "--pid")
	}
	if c.users[0].UID != 0 {
		argv = append(argv, "--user", "--preserve-credentials")
	}
	return append(argv, "--")
}

// become is the next part: it sets the user, and a child of nsenter dies with nsenter.
func (c *Cluster) become(u account, forked bool) []string {
	argv := []string{"setpriv"}
	if forked {
		argv = append(argv, "--pdeathsig", "KILL")
	}
	if u.UID != c.users[0].UID {
		argv = append(argv, "--reuid", strconv.Itoa(u.UID), "--regid", strconv.Itoa(u.GID), "--clear-groups")
	}
	if len(argv) == 1 {
		return nil
	}
	return append(argv, "--")
}

func (c *Cluster) userEnv(u account) []string {
	return []string{"PATH=" + SearchPath, "SLURM_CONF=" + c.Conf(), "HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name,
		"SHELL=/bin/bash", "LANG=C.UTF-8"}
}

// Describe explains how to use a cluster from a shell.
func (c *Cluster) Describe() string {
	shell := c.Command(context.Background(), "", "bash")
	lines := []string{
		fmt.Sprintf("Slurm %s, %d nodes, files in %s. A shell next to the controller:", c.Options.Version, c.Options.Nodes, c.Dir),
		"  env -i TERM=$TERM " + strings.Join(append(shell.Env, shell.Args...), " "),
	}
	if c.Login != nil {
		lines = append(lines, "On a login node:", "  ssh -F "+c.Login.Config+" login")
	}
	if c.Options.Slurmrestd {
		lines = append(lines, "slurmrestd, inside: http://"+c.RestAddress())
	}
	return strings.Join(append(lines, "It ends with this command (Ctrl-C)."), "\n")
}
