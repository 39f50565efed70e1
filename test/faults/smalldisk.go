// Package faults is what goes wrong around a program in tests: a disk that is full, a process that is stopped, another user who attacks.
package faults

import (
	"bytes"
	"syscall"
)

// SmallDisk accepts Room bytes and then fails like write(2) on a full disk: a partial write, then ENOSPC. More room lets it accept writes again.
type SmallDisk struct {
	bytes.Buffer
	Room int
}

// Write never returns less than what it took.
func (d *SmallDisk) Write(p []byte) (int, error) {
	n := min(d.Room, len(p))
	d.Room -= n
	d.Buffer.Write(p[:n])
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}
