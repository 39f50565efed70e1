//go:build linux

package chaos

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a process of this machine, including those in the namespaces of the testbeds' nodes and pods.
type process struct {
	pid     int
	started int64 // clock ticks after the machine's boot
	command string
	environ string
	cgroup  string
}

// table lists all processes except zombies and this one, the oldest first.
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
			out = append(out, process{pid, startTime(read("stat")), strings.TrimRight(strings.ReplaceAll(command, "\x00", " "), " "), read("environ"), read("cgroup")})
		}
	}
	slices.SortStableFunc(out, func(a, b process) int { return cmp.Compare(a.started, b.started) })
	return out
}

// startTime is the 22nd field of /proc/PID/stat, of which the second may have spaces and parentheses.
func startTime(stat string) int64 {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0
	}
	ticks, _ := strconv.ParseInt(fields[19], 10, 64)
	return ticks
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

// frozen stops processes for some time, and returns whether there were any.
func frozen(all []process, match func(process) bool, length time.Duration) bool {
	stopped := signal(all, syscall.SIGSTOP, match)
	time.Sleep(length)
	signal(all, syscall.SIGCONT, match)
	return stopped > 0
}
