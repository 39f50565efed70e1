package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/dashboardclient/logstream"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/faults"
)

// After its driver's end a head that is being deleted is dialled once; while the driver runs, the head is dialled repeatedly.
func TestHeadIsNotTriedInVain(t *testing.T) {
	tries, a := 0, &attemptLog{}
	dial := a.useful(func(context.Context, string, string) (net.Conn, error) {
		tries++
		return nil, net.ErrClosed
	})
	for range 3 {
		if _, err := dial(t.Context(), "tcp", "head"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("while the driver runs: %v", err)
		}
	}
	a.unreached.Store(false)
	a.ended.Store(true)
	for _, want := range []error{net.ErrClosed, errEnded, errEnded} {
		if _, err := dial(t.Context(), "tcp", "head"); !errors.Is(err, want) {
			t.Errorf("after its end: %v, want %v", err, want)
		}
	}
	if tries != 4 {
		t.Errorf("%d tries, want 4", tries)
	}
}

// What was shown live and the saved copy are the same bytes: the copy goes on where the live output was cut, in the middle of a line, or of one of Ray's.
func TestOutputGoesOn(t *testing.T) {
	const saved = "2026-11-29 12:00:00,000\tINFO job_manager.py:581 -- Runtime env is setting up.\nRunning entrypoint for job x-1: drive\nline 1\n" + logstream.Truncated + "line 2\n"
	for cut := range len(saved) {
		var out bytes.Buffer
		o := newOutput(nil, "x", RunOptions{Stdout: &out}, slog.New(slog.DiscardHandler))
		r := &Result{open: func(_ context.Context, _ int, offset int64) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(saved[offset:])), nil
		}}
		r.Job, r.Attempt = &runstate.Job{SubmissionID: "x-1", Entrypoint: "drive"}, 1
		if err := o.attempt(r.Job, 1).show(strings.NewReader(saved[:cut]), 0); err != nil {
			t.Fatal(err)
		}
		if err := o.complete(t.Context(), r); err != nil || out.String() != "line 1\n"+logstream.Truncated+"line 2\n" {
			t.Fatalf("cut at byte %d: %q, %v", cut, out.String(), err)
		}
	}
	if got := MissingOutput([2]int64{7, 7}); got != "Output may be missing at byte 7, where the driver's log was truncated" {
		t.Error(got)
	}
}

// TestRanksOfTheNextAttempt: an attempt that was cut within a rank's record takes nothing of the next one, and what is no output of ranks gets no line end.
func TestRanksOfTheNextAttempt(t *testing.T) {
	ranks, _ := driverio.OnNodes(driverio.Ranks{Command: "true"}, nil)
	for entrypoint, want := range map[string]string{ranks: "[rank 0] cu\n[rank 1] whole\n[rank 0]+a\n", "true": "[rank 0] cu[rank 1] whole\n[rank 0]+a\n"} {
		var out bytes.Buffer
		o := newOutput(nil, "x", RunOptions{Stdout: &out}, slog.New(slog.DiscardHandler))
		for n, texts := range [][]string{{"[rank 0] ", "cu"}, {"[rank 1]", " whole\n", "[rank 0]+a\n"}} {
			a := o.attempt(&runstate.Job{SubmissionID: "x-1", Entrypoint: entrypoint}, n+1)
			text := fmt.Sprintf("Running entrypoint for job x-%d: %s\n", n+1, entrypoint)
			for _, part := range append([]string{text}, texts...) {
				if err := a.show(strings.NewReader(part), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		if out.String() != want {
			t.Errorf("%q, want %q", &out, want)
		}
	}
}

// If the stream accepts no more, copying the rest of an attempt's output from its saved copy is no failure, and writes nothing to the stream.
func TestOutputIsNotRepeated(t *testing.T) {
	disk := &faults.SmallDisk{Room: 9}
	o := newOutput(nil, "x", RunOptions{Stdout: disk}, slog.New(slog.DiscardHandler))
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
