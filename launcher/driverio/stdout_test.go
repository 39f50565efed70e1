package driverio

import (
	"bytes"
	"errors"
	"syscall"
	"testing"
)

// smallDisk accepts some bytes and then fails like write(2) on a full disk: a partial write, then ENOSPC. free makes room again.
type smallDisk struct {
	bytes.Buffer
	room int
}

func (d *smallDisk) Write(p []byte) (int, error) {
	n := min(d.room, len(p))
	d.room -= n
	d.Buffer.Write(p[:n])
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// After an error a stream gets nothing more, even if it would accept writes again: it has a prefix of the output, each byte once.
func TestStdoutAfterItsFailure(t *testing.T) {
	disk, told := &smallDisk{room: 4}, 0
	s := NewStdout(disk, func(error) { told++ })
	for _, text := range []string{"ab", "cdef", "gh"} {
		if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
		disk.room += 1
	}
	if disk.String() != "abcde" || told != 1 || !errors.Is(s.Err(), syscall.ENOSPC) {
		t.Errorf("%q, told %d times, %v", disk, told, s.Err())
	}
}
