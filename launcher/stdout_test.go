package launcher

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/launcher/runstate"
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

// If the stream accepts no more, copying the rest of an attempt's output from its saved copy is no failure, and writes nothing to the stream.
func TestOutputIsNotRepeated(t *testing.T) {
	disk := &smallDisk{room: 9}
	o := newOutput(nil, "x", disk, slog.New(slog.DiscardHandler))
	opened := []int64{}
	open := func(_ context.Context, _ int, offset int64) (io.ReadCloser, error) {
		opened = append(opened, offset)
		return io.NopCloser(bytes.NewReader([]byte("line 1\nline 2\nline 3\n")[offset:])), nil
	}
	r := &Result{open: open}
	r.Job = &runstate.Job{SubmissionID: "x-1"}
	r.Attempt = 1
	for range 2 {
		if err := o.complete(t.Context(), r); err != nil {
			t.Error(err)
		}
		disk.room = 100
	}
	if disk.String() != "line 1\nli" {
		t.Errorf("%q", disk)
	}
	if diff := cmp.Diff([]int64{0}, opened); diff != "" {
		t.Error(diff)
	}
}
