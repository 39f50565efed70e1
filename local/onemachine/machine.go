package onemachine

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// machine is what nodes of a cluster share. Unknown sizes are 0.
type machine struct {
	CPUs   int
	Memory int64 // bytes this process may use
	Shm    int64 // bytes free in /dev/shm; 0 where Ray does not use it
}

// thisMachine reads what this process may use of the machine.
func thisMachine() machine {
	m := machine{CPUs: runtime.GOMAXPROCS(0), Memory: physicalMemory()} // GOMAXPROCS follows the cgroup's quota
	if limit, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(limit)), 10, 64); err == nil && n < m.Memory {
			m.Memory = n
		}
	}
	m.Shm = freeSpace("/dev/shm")
	return m
}

// freeSpace is what the user may still write there; 0 if unknown.
func freeSpace(path string) int64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0
	}
	return int64(s.Bavail) * int64(s.Bsize) //nolint:unconvert // Bsize is a uint32 on macOS
}
