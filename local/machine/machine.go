// Package machine is what there is on this machine for Ray: its sizes and how nodes share them, temporary directories, mounts, and clusters that others
// started.
package machine

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Machine is what nodes of a cluster share. Unknown sizes are 0.
type Machine struct {
	CPUs   int
	Memory int64 // bytes this process may use
	Shm    int64 // bytes free in /dev/shm; 0 where Ray does not use it
}

// This reads what this process may use of the machine.
func This() Machine {
	m := Machine{CPUs: runtime.GOMAXPROCS(0), Memory: physicalMemory()} // GOMAXPROCS follows the cgroup's quota
	if limit, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(limit)), 10, 64); err == nil && n < m.Memory {
			m.Memory = n
		}
	}
	m.Shm = FreeSpace("/dev/shm")
	return m
}

// FreeSpace is what the user may still write there; 0 if unknown.
func FreeSpace(path string) int64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0
	}
	return int64(s.Bavail) * int64(s.Bsize) //nolint:unconvert // Bsize is a uint32 on macOS
}
