package launcher

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/smalldisk"
)

// If the stream accepts no more, copying the rest of an attempt's output from its saved copy is no failure, and writes nothing to the stream.
func TestOutputIsNotRepeated(t *testing.T) {
	disk := &smalldisk.Disk{Room: 9}
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
		disk.Room = 100
	}
	if disk.String() != "line 1\nli" {
		t.Errorf("%q", disk)
	}
	if diff := cmp.Diff([]int64{0}, opened); diff != "" {
		t.Error(diff)
	}
}
