//go:build linux

// Package agent is the first process in each of the cluster's namespaces: a copy of the test program. Importing
// this package turns a program into an agent if the environment requests it.
package agent

import (
	"context"
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/rayctl/rayctl/test/slurmtest/internal/nfsmount"
)

// agentEnv turns the test binary into the first process of a namespace of the cluster, before any test runs. Every
// package that starts a cluster would have to build a separate program first.
const agentEnv = "RAYCTL_SLURMTEST_AGENT"

func init() {
	if os.Getenv(agentEnv) != "" {
		serveAgent()
	}
}

// agent is process 1 of the controller's or a node's namespaces. It serves net/rpc on its standard input and output. When
// these close it exits, and the kernel ends everything in its process namespace.
type agent struct {
	mu       sync.Mutex
	cfg      SetupArgs
	children *children
	nodes    map[string]*Client
	links    map[string][]string // the controller's ends of the nodes' network cables, by node
	made     int                 // nodes made so far, for names of network devices
	exports  []nfsmount.Export   // mounted here
}

// SetupArgs are the arguments of Setup and Node.
type SetupArgs struct {
	Name    string // host name
	Address string // in the cluster's network
	Storage string // in the second network; empty: there is none
	Dir     string // the cluster's directory
	Mounts  Mounts
	Gateway string // default route of a node; empty: none
	Bridge  bool   // the controller, whose namespaces have the nodes' network
	Exports []nfsmount.Export
}

func serveAgent() {
	a := &agent{children: reapChildren(), nodes: map[string]*Client{}, links: map[string][]string{}}
	server := rpc.NewServer()
	if err := server.RegisterName("Agent", a); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server.ServeConn(stdio{})
	if a.cfg.Bridge { // the starter of the cluster ended without closing it
		_ = syscall.Kill(-1, syscall.SIGKILL)
		for _, export := range a.exports { // whose server is dead now: what is below would wait for it
			_ = syscall.Unmount(export.Dir, syscall.MNT_DETACH)
		}
		_ = os.RemoveAll(a.cfg.Dir) // except the directory itself, which is a mount point here
	}
	os.Exit(0)
}

type stdio struct{}

func (stdio) Read(p []byte) (int, error)  { return os.Stdin.Read(p) }
func (stdio) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (stdio) Close() error                { return nil }

// PID returns the agent's process id in the machine's /proc, which the agent sees until Setup.
func (a *agent) PID(_ struct{}, pid *int) error {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return err
	}
	*pid, err = strconv.Atoi(self)
	return err
}

// Setup makes the namespaces' own view of files and network.
func (a *agent) Setup(args SetupArgs, _ *struct{}) error {
	a.cfg = args
	if err := syscall.Sethostname([]byte(args.Name)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := args.Mounts.apply(!args.Bridge); err != nil {
		return err
	}
	if args.Bridge {
		return a.setupBridge()
	}
	if err := a.setupInterface(); err != nil {
		return err
	}
	return a.Mount(args.Exports, nil)
}

// Mount mounts exports of an NFS server. On the controller that is after Setup, when the server runs.
func (a *agent) Mount(exports []nfsmount.Export, _ *struct{}) error {
	for _, export := range exports {
		if err := nfsmount.Mount(export); err != nil {
			return err
		}
		a.exports = append(a.exports, export)
	}
	return nil
}

// SpawnArgs are the arguments of Spawn and Run.
type SpawnArgs struct {
	Node string // empty: with the controller
	Name string
	Argv []string
	Env  []string
	UID  int // 0: as the agent
	Log  string
}

// Spawn starts a daemon under a name for Stop.
func (a *agent) Spawn(args SpawnArgs, _ *struct{}) error {
	if args.Node != "" {
		return a.forward(args.Node, func(c *Client) error {
			args.Node = ""
			return c.Call("Agent.Spawn", args, nil)
		})
	}
	log, err := os.OpenFile(args.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(context.Background(), args.Argv[0], args.Argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Dir = args.Env, log, log, a.cfg.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if args.UID != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(args.UID), Gid: uint32(args.UID)}
	}
	return a.children.start(args.Name, cmd)
}

// StopArgs are the arguments of Stop.
type StopArgs struct {
	Node, Name string
	Signal     syscall.Signal
}

// Stop signals a daemon and returns when it has ended. A daemon that does not run is not an error.
func (a *agent) Stop(args StopArgs, _ *struct{}) error {
	if args.Node != "" {
		return a.forward(args.Node, func(c *Client) error {
			args.Node = ""
			return c.Call("Agent.Stop", args, nil)
		})
	}
	a.children.stop(args.Name, args.Signal)
	return nil
}

// Signal signals a daemon without waiting for anything.
func (a *agent) Signal(args StopArgs, _ *struct{}) error {
	return a.children.signal(args.Name, args.Signal)
}

// RunReply is the result of Run: standard output and error together, and the exit code.
type RunReply struct {
	Output string
	Code   int
}

// Run runs a program to its end next to the controller.
func (a *agent) Run(args SpawnArgs, reply *RunReply) error {
	cmd := exec.CommandContext(context.Background(), args.Argv[0], args.Argv[1:]...)
	cmd.Env, cmd.Dir = args.Env, a.cfg.Dir
	out, code, err := a.children.run(cmd)
	*reply = RunReply{Output: string(out), Code: code}
	return err
}

// Node makes a node's namespaces and joins them to the network. The reply is its agent's process id.
func (a *agent) Node(args SetupArgs, pid *int) error {
	logFile, err := os.OpenFile(filepath.Join(a.cfg.Dir, "log", "agent-"+args.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = logFile.Close() }()
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: Namespaces}
	client, err := Start(cmd, logFile, func(c *exec.Cmd) error { return a.children.start("node "+args.Name, c) })
	if err != nil {
		return fmt.Errorf("starting %s: %w", args.Name, err)
	}
	if err := client.Call("Agent.PID", struct{}{}, pid); err != nil {
		return err
	}
	link, err := a.join(*pid, "br0", "eth0", args.Address)
	links := []string{link}
	if err == nil && args.Storage != "" {
		link, err = a.join(*pid, "br1", "eth1", args.Storage)
		links = append(links, link)
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.nodes[args.Name], a.links[args.Name] = client, links
	a.mu.Unlock()
	return client.Call("Agent.Setup", args, nil)
}

// RemoveNode is a power cut: all processes on the node die at once. Its network is removed first, because the kernel would still close the connections
// of killed processes, and others would notice that before Slurm does.
func (a *agent) RemoveNode(name string, _ *struct{}) error {
	a.mu.Lock()
	links := a.links[name]
	delete(a.nodes, name)
	delete(a.links, name)
	a.mu.Unlock()
	var err error
	for _, link := range links {
		err = errors.Join(err, a.ip("link set "+link+" down"))
	}
	a.children.stop("node "+name, syscall.SIGKILL)
	return err
}

func (a *agent) forward(node string, call func(*Client) error) error {
	a.mu.Lock()
	client := a.nodes[node]
	a.mu.Unlock()
	if client == nil {
		return fmt.Errorf("%s is switched off", node)
	}
	return call(client)
}
