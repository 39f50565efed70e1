package driverio

import (
	"errors"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/test/faults"
)

// After an error a stream gets nothing more, even if it would accept writes again: it has a prefix of the output, each byte once.
func TestStdoutAfterItsFailure(t *testing.T) {
	disk, told := &faults.SmallDisk{Room: 4}, 0
	s := NewStdout(disk, func(error) { told++ })
	for _, text := range []string{"ab", "cdef", "gh"} {
		if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
		disk.Room += 1
	}
	if disk.String() != "abcde" || told != 1 || !errors.Is(s.Err(), syscall.ENOSPC) {
		t.Errorf("%q, told %d times, %v", disk, told, s.Err())
	}
}
