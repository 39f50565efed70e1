//go:build linux

package slurmtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/test/slurmtest/internal/agent"
)

// Process is one process on a node.
type Process struct {
	PID     int // in this test's namespace
	Parent  int
	Command string
	UID     int
}

// Processes lists the processes on a node ("node2", "login", or "ctl") except the testbed's own.
func (c *Cluster) Processes(node string) ([]Process, error) {
	first, err := c.firstProcess(node)
	if err != nil {
		return nil, err
	}
	network, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", first))
	if err != nil {
		return nil, fmt.Errorf("looking for processes of %s: %w", node, err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == first {
			continue
		}
		if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid)); err != nil || ns != network {
			continue
		}
		if p, ok := describe(pid); ok && !ownDaemon(p.Command) {
			found = append(found, p)
		}
	}
	return found, nil
}

func (c *Cluster) firstProcess(node string) (int, error) {
	if node == "ctl" {
		return c.ctlPID, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if pid, on := c.nodes[node]; on {
		return pid, nil
	}
	return 0, fmt.Errorf("%s is switched off", node)
}

// describe reads a process's command line; ended processes and zombies have none.
func describe(pid int) (Process, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(text) == 0 {
		return Process{}, false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Process{}, false
	}
	p := Process{PID: pid, Command: strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " "))}
	if _, rest, ok := strings.Cut(string(status), "\nUid:\t"); ok {
		uid, _, _ := strings.Cut(rest, "\t")
		p.UID, _ = strconv.Atoi(uid)
	}
	if _, rest, ok := strings.Cut(string(status), "\nPPid:\t"); ok {
		parent, _, _ := strings.Cut(rest, "\n")
		p.Parent, _ = strconv.Atoi(parent)
	}
	return p, true
}

// ownDaemon recognises processes started by the testbed, which do not include slurmstepd: it belongs to a job.
func ownDaemon(command string) bool {
	program, _, _ := strings.Cut(command, " ")
	daemons := []string{"munged", "slurmctld", "slurmd", "slurmdbd", "slurmrestd", "mariadbd", "sshd"}
	return strings.HasPrefix(program, prefix+"/daemons/") && slices.Contains(daemons, filepath.Base(program)) ||
		strings.HasPrefix(command, "slurmctld:") || strings.HasPrefix(command, "sshd:") && strings.Contains(command, "[listener]") ||
		program == "/usr/bin/ganesha.nfsd" || program == "/usr/sbin/rpcbind" || command == "/proc/self/exe"
}

// Leaks lists leftovers on the cluster: jobs, processes on any node, and files in the nodes' /tmp, /run and /dev/shm.
// Nodes that are switched off have none.
func (c *Cluster) Leaks(ctx context.Context) ([]string, error) {
	var left []string
	jobs, err := c.Slurm(ctx, "squeue", "-h", "-o", "job %i %j %T")
	if err != nil {
		return nil, err
	}
	left = append(left, strings.FieldsFunc(jobs, func(r rune) bool { return r == '\n' })...)
	c.mu.Lock()
	nodes := []string{"ctl"}
	for name := range c.nodes {
		nodes = append(nodes, name)
	}
	c.mu.Unlock()
	slices.Sort(nodes)
	for _, node := range nodes {
		processes, err := c.Processes(node)
		if err != nil {
			return nil, err
		}
		for _, p := range processes {
			left = append(left, fmt.Sprintf("%s: process %d: %s", node, p.PID, p.Command))
		}
		files, err := c.Files(node)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			left = append(left, node+": file "+f)
		}
	}
	return left, nil
}

// Files lists files and directories in a node's /tmp, /run and /dev/shm that are not the testbed's.
func (c *Cluster) Files(node string) ([]string, error) {
	pid, err := c.firstProcess(node)
	if err != nil {
		return nil, err
	}
	keep, _ := c.visible()
	keep = append(keep, prefix, "/run/sshd", "/run/netns")
	root := fmt.Sprintf("/proc/%d/root", pid)
	var found []string
	for _, dir := range agent.Private {
		err := filepath.WalkDir(root+dir, func(path string, entry fs.DirEntry, err error) error {
			path = strings.TrimPrefix(path, root)
			switch {
			case errors.Is(err, fs.ErrNotExist): // gone meanwhile
				return nil
			case err != nil:
				return err
			case slices.Contains(keep, path):
				return skip(entry)
			case path == dir || slices.ContainsFunc(keep, func(k string) bool { return strings.HasPrefix(k, path+"/") }):
				return nil
			}
			found = append(found, path)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("looking for files on %s: %w", node, err)
		}
	}
	return found, nil
}

func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// RequireClean fails the test if jobs, processes or files are still left after a generous time.
func (c *Cluster) RequireClean(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var left []string
	err := await(ctx, queryInterval, "the cluster to be clean", func() (bool, error) {
		now, err := c.Leaks(ctx)
		if err == nil {
			left = now
		}
		return err == nil && len(now) == 0, err
	})
	if err != nil {
		t.Errorf("%v; left:\n%s", err, strings.Join(left, "\n"))
	}
}
