//go:build linux

package chaos

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a process of this machine, including those in the namespaces of the testbeds' nodes and pods.
type process struct {
	pid     int
	command string
	environ string
	cgroup  string
}

// table lists all processes except zombies and this one.
func table() (out []process) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		read := func(name string) string {
			text, _ := os.ReadFile("/proc/" + e.Name() + "/" + name) // empty if it ended
			return string(text)
		}
		if command := read("cmdline"); command != "" {
			out = append(out, process{pid, strings.TrimRight(strings.ReplaceAll(command, "\x00", " "), " "), read("environ"), read("cgroup")})
		}
	}
	return out
}

func (p process) String() string { return fmt.Sprintf("process %d %.200s", p.pid, p.command) }

// signal sends a signal to matching processes, and returns their number.
func signal(all []process, sig syscall.Signal, match func(process) bool) (n int) {
	for _, p := range all {
		if match(p) && syscall.Kill(p.pid, sig) == nil {
			n++
		}
	}
	return n
}

// command matches processes by a part of their command line.
func command(parts ...string) func(process) bool {
	return func(p process) bool {
		for _, part := range parts {
			if strings.Contains(p.command, part) {
				return true
			}
		}
		return false
	}
}

// frozen stops processes for some time.
func frozen(all []process, match func(process) bool, length time.Duration) {
	signal(all, syscall.SIGSTOP, match)
	time.Sleep(length)
	signal(all, syscall.SIGCONT, match)
}
