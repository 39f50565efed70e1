// Package smalldisk is a disk for tests that is nearly full.
package smalldisk

import (
	"bytes"
	"syscall"
)

// Disk accepts Room bytes and then fails like write(2) on a full disk: a partial write, then ENOSPC. More room lets it accept writes again.
type Disk struct {
	bytes.Buffer
	Room int
}

// Write never returns less than what it took.
func (d *Disk) Write(p []byte) (int, error) {
	n := min(d.Room, len(p))
	d.Room -= n
	d.Buffer.Write(p[:n])
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}
