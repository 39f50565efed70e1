//go:build !linux

package proc

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Table lists the processes of this machine, as ps shows them.
func Table() ([]Process, error) { return ps("-ax") }

func lookup(pid int) (Process, bool) {
	table, err := ps("-p", strconv.Itoa(pid))
	if err != nil || len(table) != 1 {
		return Process{}, false
	}
	return table[0], true
}

// ps shows the environment after the arguments (-E) of the user's own processes.
func ps(which ...string) ([]Process, error) {
	args := append([]string{"-Eww", "-o", "pid=,ppid=,pgid=,uid=,state=,command="}, which...)
	out, err := exec.Command("ps", args...).Output() //nolint:noctx // it answers at once
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	var table []Process
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 6 {
			continue
		}
		p := Process{Zombie: strings.HasPrefix(f[4], "Z"), command: strings.Join(f[5:], " ")}
		p.PID, _ = strconv.Atoi(f[0])
		p.Parent, _ = strconv.Atoi(f[1])
		p.Session, _ = strconv.Atoi(f[2])
		p.UID, _ = strconv.Atoi(f[3])
		table = append(table, p)
	}
	return table, nil
}

// environ splits what ps shows at spaces, so markers must not have any.
func environ(p Process) []string { return strings.Fields(p.command) }

// CommandLine is the process's argv, joined by spaces, and its environment.
func CommandLine(p Process) string { return p.command }
