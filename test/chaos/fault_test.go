//go:build linux

package chaos

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fault is one injected failure.
type fault struct {
	// strike injects the fault, and returns whether there was a target.
	strike func(r *runningCase) bool
	// causes that may end the run besides its driver's own end.
	causes []string
	// node faults count against job.restarts.nodeFailure: with a restart left the run ends as its driver does.
	node bool
	// refuses: a launch that has not begun yet may be refused, which leaves no record.
	refuses bool
	// lossy faults lose output that was still on the node.
	lossy bool
	// clientDies: the client's exit code and complete output are not promised.
	clientDies bool
	// gentle faults end no node by force: no task is done twice.
	gentle bool
	// gaps: output may be missing where receipt and record say so.
	gaps bool
	// rest: of a log that is read through Ray all that comes after the strike may be missing, too.
	rest bool
	// own faults are those that only a kind of clusters has.
	own bool
	// closed: the launch happens with the gang's queue closed, and the fault strikes while the gang waits. Later the queue is open.
	closed bool
	// prepare replaces job.prepare of a cluster with an early head; BOOK in it is the book's directory.
	prepare string
	// before happens before the launch.
	before func(r *runningCase)
}

// clientFaults concern the client, the user and the driver; every launcher has them.
func clientFaults() map[string]fault {
	return map[string]fault{
		"client killed":     {strike: toClient(syscall.SIGKILL), causes: []string{"abandoned"}, clientDies: true},
		"client hung up":    {strike: toClient(syscall.SIGHUP), causes: []string{"abandoned", "interrupted"}, clientDies: true},
		"client terminated": {strike: toClient(syscall.SIGTERM), causes: []string{"abandoned", "interrupted"}},
		"client frozen": {strike: func(r *runningCase) bool {
			_ = r.client.Process.Signal(syscall.SIGSTOP)
			time.Sleep(6 * time.Second)
			return r.client.Process.Signal(syscall.SIGCONT) == nil
		}},
		"second client": {strike: func(r *runningCase) bool { r.second = r.start(&r.secondOut); return true }},
		"down":          {strike: func(r *runningCase) bool { return r.rayctl("down", r.d.run()).code == 0 }, causes: []string{"down", "abandoned"}},
		"down --now":    {strike: func(r *runningCase) bool { return r.rayctl("down", "--now", r.d.run()).code == 0 }, causes: []string{"down", "abandoned"}, lossy: true},
		"driver killed": {strike: kill("driver.py " + "/"), causes: []string{"driver-signaled"}},
	}
}

// rayFaults concern Ray's processes on the head's node. headLossy: the head's files are lost with it.
func rayFaults(headLossy bool) map[string]fault {
	lost := fault{causes: []string{"lost"}, node: true, lossy: headLossy}
	with := func(strike func(*runningCase) bool) fault { f := lost; f.strike = strike; return f }
	return map[string]fault{
		"GCS killed":       with(kill("gcs_server")),
		"dashboard killed": with(kill("dashboard/dashboard.py", "ray-dashboard")),
		"raylet killed":    with(kill("/raylet/raylet ")),
		"dashboard frozen": {strike: func(r *runningCase) bool {
			return frozen(r.processes(), command("dashboard/dashboard.py", "ray-dashboard"), 40*time.Second)
		}},
	}
}

// kill ends the oldest of the run's processes whose command line has one of the parts.
func kill(parts ...string) func(*runningCase) bool {
	return func(r *runningCase) bool {
		for _, p := range r.processes() {
			if command(parts...)(p) {
				return syscall.Kill(p.pid, syscall.SIGKILL) == nil
			}
		}
		return false
	}
}

func freeze(length time.Duration, parts ...string) func(*runningCase) bool {
	return func(r *runningCase) bool { return frozen(r.processes(), command(parts...), length) }
}

func toClient(sig syscall.Signal) func(*runningCase) bool {
	return func(r *runningCase) bool { return r.client.Process.Signal(sig) == nil }
}

// result is the result of a command.
type result struct {
	out, err string
	code     int
}

func ask(c *exec.Cmd) result {
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	err := c.Run()
	return result{out.String(), stderr.String(), exitCode(c, err)}
}

// exitCode is 128 and the signal's number if a signal ended the command, -1 if it never began.
func exitCode(c *exec.Cmd, err error) int {
	if c.ProcessState == nil {
		return -1
	}
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	if err == nil {
		return 0
	}
	return c.ProcessState.ExitCode()
}

// transcript is a command's output so far.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
