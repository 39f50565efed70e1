package keeper

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// Alive says whether the keeper's process exists on this machine: the same process, not only the same number.
func (p Process) Alive() bool {
	if p.PID <= 0 || syscall.Kill(p.PID, 0) == syscall.ESRCH {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/stat")
	if err != nil {
		return p.StartTime == 0 // no /proc here: the number has to do
	}
	// The command in parentheses may contain anything; field 3, the state, follows it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || string(fields[0]) == "Z" {
		return false
	}
	return p.StartTime == 0 || string(fields[19]) == strconv.FormatInt(p.StartTime, 10)
}
