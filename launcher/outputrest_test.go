package launcher

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/dashboardclient/logstream"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/smalldisk"
)

// Where the driver's log was truncated the saved copy has a note, and what came after it: what was shown live beyond that place says nothing about the copy.
func TestOutputOfTruncatedLog(t *testing.T) {
	var out bytes.Buffer
	o := newOutput(nil, "x", &out, slog.New(slog.DiscardHandler))
	saved := "line 1\n" + logstream.Truncated + "line 2\nline 3\n"
	r := &Result{Log: LogInfo{Missing: [][2]int64{{7, 7}}}, open: func(_ context.Context, _ int, offset int64) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(saved[offset:])), nil
	}}
	r.Job, r.Attempt = &runstate.Job{SubmissionID: "x-1"}, 1
	o.attempt(r.Job, 1).driver.offset = 14 // "line 1\n", and the second line of what the log has now
	if err := o.complete(t.Context(), r); err != nil || out.String() != saved[7:] {
		t.Errorf("%q, %v", out.String(), err)
	}
	if got := MissingOutput(r.Log.Missing[0]); got != "Output may be missing at byte 7, where the driver's log was truncated" {
		t.Error(got)
	}
}

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
