package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Table lists the processes of this machine.
func Table() ([]Process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var table []Process
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := lookup(pid); ok {
				table = append(table, p)
			}
		}
	}
	return table, nil
}

// lookup reads /proc/PID/stat, see proc(5); ok is false when the process is gone.
func lookup(pid int) (Process, bool) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	stat, err := os.ReadFile(path)
	if err != nil {
		return Process{}, false
	}
	end := bytes.LastIndexByte(stat, ')') // the command's name before it may hold anything
	fields := strings.Fields(string(stat[end+1:]))
	if end < 0 || len(fields) < 20 {
		return Process{}, false
	}
	p := Process{PID: pid, Zombie: fields[0] == "Z" || fields[0] == "X", UID: -1}
	p.Parent, _ = strconv.Atoi(fields[1])
	p.Session, _ = strconv.Atoi(fields[3])
	p.Start, _ = strconv.ParseInt(fields[19], 10, 64)
	if info, err := os.Stat(path); err == nil {
		p.UID = int(info.Sys().(*syscall.Stat_t).Uid)
	}
	return p, true
}

// environ is the environment the process was started with, NAME=VALUE each; nil if it may not be read.
func environ(p Process) []string {
	block, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
	if err != nil {
		return nil
	}
	return strings.Split(string(block), "\x00")
}

// CommandLine is the process's argv, joined by spaces.
func CommandLine(p Process) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(bytes.ReplaceAll(b, []byte{0}, []byte{' '})))
}
