//go:build linux

// Package slurmtest starts private, real Slurm clusters for tests: slurmctld, slurmd and munged of a chosen version on N
// nodes, each with its own network, host name, processes, /tmp, /run and /dev/shm, sharing all other files. It needs
// no installation and changes nothing on the machine. Programs come from packages unpacked in the test cache, and the
// cluster is in namespaces whose first process dies with the test and ends everything. It works as root and, with
// the limits named in Options, as a plain user where user namespaces are allowed.
//
// Tests act as users of the cluster with Cluster.Command, next to the controller, or over ssh with Options.LoginSSH.
package slurmtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/slurmtest/internal/agent"
)

// Cluster is a running Slurm cluster.
type Cluster struct {
	Options Options // with defaults filled in

	// Dir has all files of the cluster, at the same path on all nodes. Its parts for tests: shared/ (a shared file
	// system, writable for all users), home/<user>/, log/ and etc/slurm.conf.
	Dir string

	// Login describes the ssh login nodes, with Options.LoginSSH.
	Login *Login

	users   []account
	agent   *agent.Client
	process *exec.Cmd
	ctlPID  int

	// Directories of the test cache with programs that the machine need not have:
	packages string // Slurm and sshd
	nfsRoot  string // the NFS server; empty without Options.NFS
	otpRoot  string // PAM's module for codes; empty without Options.TwoFactors

	mu    sync.Mutex
	nodes map[string]int // process id of the first process of each running node
}

// startTimeout is generous: machines under load take long to start even small programs.
const startTimeout = 2 * time.Minute

// Start starts a cluster for a test and removes it at the test's end.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	needs.RealSystem(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // the first use of a version downloads it
	defer cancel()
	c, err := New(ctx, o)
	if err != nil {
		t.Fatalf("starting Slurm: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("slurmctld.log ends with:\n%s", c.logTail("slurmctld.log", 30))
		}
		if err := c.Close(); err != nil {
			t.Errorf("removing the Slurm cluster: %v", err)
		}
	})
	return c
}

// New starts a cluster and returns when all nodes are idle. Close removes it. If this process ends without Close, only the cluster's directory stays.
func New(ctx context.Context, o Options) (*Cluster, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	rel, err := findRelease(o.Version)
	if err != nil {
		return nil, err
	}
	root, err := packages(ctx, rel)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Options: o, nodes: map[string]int{}, packages: root}
	if err := c.unpackOptional(ctx, rel); err != nil {
		return nil, err
	}
	if err := c.makeDir(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) makeDir() error {
	dir, err := os.MkdirTemp("", "slurm-") // short: sockets below it have at most 107 bytes
	if err != nil {
		return err
	}
	c.Dir = dir
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	c.users = accounts(dir, c.Options)
	return layout(dir, c.Options, c.users)
}

// start starts the cluster. Independent parts start together.
func (c *Cluster) start(ctx context.Context) error {
	if err := c.startNamespaces(ctx); err != nil {
		return err
	}
	if c.Options.NFS {
		if err := c.startNFS(ctx); err != nil {
			return err
		}
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.startController(groupCtx) })
	for i := range c.Options.Nodes {
		group.Go(func() error { return c.makeComputeNode(i + 1) })
	}
	if c.Options.LoginSSH {
		group.Go(func() error { return c.startLogin(groupCtx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i := range c.Options.Nodes {
		if err := c.startSlurmd(nodeName(i + 1)); err != nil {
			return err
		}
	}
	if err := c.awaitIdle(ctx); err != nil {
		return err
	}
	if c.Options.Slurmrestd {
		return c.startRest(ctx)
	}
	return nil
}

// startController starts slurmctld and its requirements.
func (c *Cluster) startController(ctx context.Context) error {
	if err := c.startMunge(ctx); err != nil {
		return err
	}
	if c.Options.Accounting {
		if err := c.startAccounting(ctx); err != nil {
			return err
		}
	}
	return c.StartController(ctx)
}

// startNamespaces starts the cluster's first process.
func (c *Cluster) startNamespaces(ctx context.Context) error {
	log, err := os.Create(filepath.Join(c.Dir, "log", "agent-ctl"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/proc/self/exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: agent.Namespaces, Setsid: true}
	if os.Getuid() != 0 {
		asPlainUser(cmd.SysProcAttr)
	}
	c.agent, err = agent.Start(cmd, log, (*exec.Cmd).Start)
	if err != nil {
		return fmt.Errorf("making namespaces: %w", err)
	}
	c.process = cmd
	setup := agent.SetupArgs{Name: "ctl", Address: ctlAddress, Bridge: true, Dir: c.Dir, Mounts: agent.Mounts{Packages: c.packages, Files: c.etcFiles()}}
	setup.Mounts.Keep, setup.Mounts.Open = c.visible()
	if c.Options.Storage {
		setup.Storage = ctlStorageAddress
	}
	if err := c.agent.Call("Agent.PID", struct{}{}, &c.ctlPID); err != nil {
		return fmt.Errorf("making namespaces: %w", err)
	}
	if err := c.agent.Call("Agent.Setup", setup, nil); err != nil {
		return fmt.Errorf("setting up the controller's namespaces: %w", err)
	}
	return nil
}

// asPlainUser gives a process all capabilities over its own namespaces; Slurm sees the user's own id.
func asPlainUser(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= syscall.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	for capability := range uintptr(lastCapability + 1) {
		attr.AmbientCaps = append(attr.AmbientCaps, capability)
	}
}

const lastCapability = 40 // CAP_CHECKPOINT_RESTORE

// visible returns two of the lists of agent.Mounts. keep: paths that the nodes must see although a directory above them is replaced. open: directories above those
// paths that the cluster's users may not enter, and that are therefore replaced.
func (c *Cluster) visible() (keep, open []string) {
	keep = []string{c.Dir}
	paths := slices.Clone(c.Options.Binds)
	for _, root := range []string{c.nfsRoot, c.otpRoot} {
		if root != "" {
			paths = append(paths, root)
		}
	}
	for _, path := range paths {
		replaced := slices.ContainsFunc(agent.Private, func(dir string) bool { return strings.HasPrefix(path, dir+"/") })
		closed := ""
		if !replaced && len(c.Options.Users) > 0 {
			closed = agent.ClosedAncestor(path)
		}
		if replaced || closed != "" {
			keep = append(keep, path)
		}
		if closed != "" && !slices.Contains(open, closed) {
			open = append(open, closed)
		}
	}
	return keep, open
}

// makeComputeNode makes node i's namespaces, without slurmd.
func (c *Cluster) makeComputeNode(i int) error {
	name, storage, files := nodeName(i), "", map[string]string{}
	if c.Options.Storage {
		storage = StorageAddress(i)
	}
	if c.Options.LoopbackNames {
		own := filepath.Join(c.Dir, "etc", "hosts."+name)
		if err := os.WriteFile(own, []byte(hostsFile(c.Options, i)), 0o644); err != nil {
			return err
		}
		files["/etc/hosts"] = own
	}
	return c.makeNode(name, nodeAddress(i), storage, files)
}

// makeNode makes a node's namespaces. files are replacements of files on this node only, as in agent.Mounts.
func (c *Cluster) makeNode(name, address, storage string, files map[string]string) error {
	args := agent.SetupArgs{Name: name, Address: address, Storage: storage, Dir: c.Dir}
	args.Mounts = agent.Mounts{Packages: prefix, Files: map[string]string{"/etc/resolv.conf": c.Dir + "/etc/resolv.conf.node"}}
	maps.Copy(args.Mounts.Files, files)
	args.Mounts.Keep, _ = c.visible()
	args.Exports = c.exports()
	if c.Options.MetadataFreeze {
		args.Gateway = ctlAddress
	}
	var pid int
	if err := c.agent.Call("Agent.Node", args, &pid); err != nil {
		return fmt.Errorf("making %s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[name] = pid
	return nil
}

// Close removes the cluster and its directory. All its processes have ended when it returns.
func (c *Cluster) Close() error {
	if c.Login != nil {
		c.Login.close()
	}
	if c.process != nil {
		_ = c.process.Process.Kill()
		_ = c.process.Wait()
		_ = c.agent.Close()
	}
	return os.RemoveAll(c.Dir)
}

// PID is the cluster's first process: killing it removes the whole cluster except its directory.
func (c *Cluster) PID() int { return c.ctlPID }

func (c *Cluster) logTail(name string, lines int) string {
	text, err := os.ReadFile(filepath.Join(c.Dir, "log", name))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
