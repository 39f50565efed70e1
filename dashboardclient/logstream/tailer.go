// Package logstream makes one whole log of what a dashboard streams: across lost connections, each byte once, and for drivers without the lines that Ray
// itself writes.
package logstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rayctl/rayctl/launcher/sleep"
)

const (
	// streamIdleLimit is how long a live stream may pause before it is reopened: a tunnel may have lost it silently.
	streamIdleLimit = 10 * time.Minute
	// reopenWait is the pause before a lost stream is opened again.
	reopenWait = 250 * time.Millisecond
	copyBuffer = 256 << 10
	// beginning is how many bytes a log is known again by: Ray begins it with a time and the job's id.
	beginning = 4096
)

// Truncated stands in the output where the log was truncated. The keeper's copy has the same (driver/log.py).
const Truncated = "\nrayctl: the log was truncated here, and output may be missing\n"

// Source is a log file as a dashboard shows it.
type Source interface {
	// String is the file's name.
	String() string
	// Open opens the file from its beginning. With follow, the reader waits for more at the end of the file.
	Open(ctx context.Context, follow bool) (io.ReadCloser, error)
	// CanFollow reports whether open can follow.
	CanFollow(ctx context.Context) (bool, error)
	// Answered reports whether an error is the dashboard's answer, and final whether to ask again is of no use. Other errors are lost connections.
	Answered(err error) (answered, final bool)
	// Explain makes a sentence of an error of open, or of the reading.
	Explain(ctx context.Context, err error) error
	// Shorter is the answer of a dashboard that gave fewer bytes than before.
	Shorter(bytes int64) error
}

// Tailer copies one log file to a writer across lost connections. The API has no offset: each new stream begins with the
// first byte, and the tailer skips the bytes it already received.
type Tailer struct {
	source   Source
	received int64        // raw bytes received from the server
	former   int64        // part of received that was in the log before it was truncated
	begins   []byte       // of the log as it is now, at most beginning bytes
	offset   atomic.Int64 // part of received that was written or skipped for good
	strip    *Stripper    // nil: everything is written
	log      *slog.Logger
	notify   func(error) // gets a lost connection's cause, nil when it is back; may be nil

	mutex       sync.Mutex
	interrupted bool
	abort       context.CancelCauseFunc // of the open stream
}

// writeError is a failure of the caller's writer, which no retry can fix.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

// NewTailer returns a tailer that begins at this offset. notify gets the cause of a lost connection, and nil when it is back; it may be nil.
func NewTailer(s Source, strip *Stripper, offset int64, log *slog.Logger, notify func(error)) *Tailer {
	t := &Tailer{source: s, strip: strip, received: offset, log: log, notify: notify}
	t.offset.Store(offset)
	return t
}

// Position is the number of raw bytes that were written or skipped so far.
func (t *Tailer) Position() int64 { return t.offset.Load() }

// Resume sets the file, and begins where the last reading ended, with a stripper for that offset.
func (t *Tailer) Resume(s Source, strip func(offset int64) *Stripper) {
	t.source, t.received = s, t.offset.Load()
	t.strip = strip(t.received)
}

// Take writes the next raw bytes to w.
func (t *Tailer) Take(w io.Writer, raw []byte) error {
	t.received += int64(len(raw))
	held := 0
	if t.strip != nil {
		raw = t.strip.push(raw)
		held = len(t.strip.held)
	}
	if _, err := w.Write(raw); err != nil && len(raw) > 0 {
		return writeError{err}
	}
	t.offset.Store(t.received - int64(held))
	return nil
}

// Follow copies present and future bytes until ctx ends (then it returns nil) or w fails.
func (t *Tailer) Follow(ctx context.Context, w io.Writer) error {
	for {
		err := t.followOnce(ctx, w)
		if ctx.Err() != nil {
			return nil
		}
		var fatal writeError
		if errors.As(err, &fatal) {
			return err
		}
		t.Lost(err)
		if !sleep.For(ctx, reopenWait) {
			return nil
		}
	}
}

// followOnce copies one stream until its end.
func (t *Tailer) followOnce(ctx context.Context, w io.Writer) error {
	canFollow, err := t.source.CanFollow(ctx)
	if err != nil {
		return err
	}
	attempt, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	t.mutex.Lock()
	t.abort = abort
	t.mutex.Unlock()
	if !canFollow {
		return t.repeat(attempt, w)
	}
	idle := time.AfterFunc(streamIdleLimit, func() { abort(errors.New("the log stream sent no data for too long")) })
	defer idle.Stop()
	return t.copy(attempt, w, true, func() { idle.Reset(streamIdleLimit) })
}

// repeat reads the whole file repeatedly, for versions whose live streams cannot be read. It reads at most a fifth of the time.
func (t *Tailer) repeat(ctx context.Context, w io.Writer) error {
	for {
		start := time.Now()
		if err := t.copy(ctx, w, false, nil); err != nil {
			return err
		}
		if !sleep.For(ctx, max(300*time.Millisecond, 4*time.Since(start))) {
			return ctx.Err()
		}
	}
}

// copy opens the file, skips the bytes received already and takes the rest. progress, if given, is called for each read.
func (t *Tailer) copy(ctx context.Context, w io.Writer, follow bool, progress func()) error {
	body, err := t.source.Open(ctx, follow)
	if err != nil {
		return err
	}
	defer body.Close()
	t.found()
	skip, at := t.received-t.former, 0
	buffer := make([]byte, copyBuffer)
	for {
		n, err := body.Read(buffer)
		if progress != nil {
			progress()
		}
		if !t.known(at, buffer[:n]) {
			if err := t.restart(w, at, buffer[:n]); err != nil {
				return err
			}
			skip = 0
		}
		at += n
		passed := min(skip, int64(n))
		skip -= passed
		if raw := buffer[passed:n]; len(raw) > 0 {
			if err := t.Take(w, raw); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) && !follow {
			return t.enough(skip)
		}
		if err != nil {
			return err
		}
	}
}

// known reports whether the bytes of the log at this offset are those that it had before, and records them if they are new.
func (t *Tailer) known(at int, raw []byte) bool {
	if at >= beginning {
		return true
	}
	raw = raw[:min(len(raw), beginning-at)]
	if had := t.begins[min(at, len(t.begins)):]; !bytes.HasPrefix(raw, had[:min(len(had), len(raw))]) {
		return false
	}
	if at+len(raw) > len(t.begins) {
		t.begins = append(t.begins[:at], raw...)
	}
	return true
}

// restart notes that the log was truncated, and takes what it has now before this offset, where other bytes follow than before.
func (t *Tailer) restart(w io.Writer, at int, raw []byte) error {
	t.log.Debug("the log was truncated", "file", t.source.String(), "received", t.received)
	if _, err := w.Write([]byte(Truncated)); err != nil {
		return writeError{err}
	}
	t.begins = append(t.begins[:at], raw[:min(len(raw), beginning-at)]...)
	t.former = t.received
	return t.Take(w, bytes.Clone(t.begins[:at]))
}

// enough returns an error if the file was shorter than before: old dashboards answer with nothing when
// they cannot reach the node's agent.
func (t *Tailer) enough(unseen int64) error {
	if unseen == 0 {
		return nil
	}
	return t.source.Shorter(unseen)
}

// Finish takes the rest of a file that no longer grows. It restores lost connections until ctx ends. A file that the server
// repeatedly cannot read gives its error.
func (t *Tailer) Finish(ctx context.Context, w io.Writer) error {
	for refusals := 0; ; {
		err := t.copy(ctx, w, false, nil)
		if err == nil {
			return t.Flush(w)
		}
		var fatal writeError
		if errors.As(err, &fatal) {
			return err
		}
		answered, final := t.source.Answered(err)
		if answered {
			refusals++
		}
		if refusals > 3 || final {
			return fmt.Errorf("the log cannot be read beyond byte %d: %w", t.offset.Load(), t.source.Explain(ctx, err))
		}
		t.Lost(err)
		if !sleep.For(ctx, reopenWait) {
			return fmt.Errorf("read log %s beyond byte %d: %w", t.source, t.offset.Load(), ctx.Err())
		}
	}
}

// Flush writes the bytes held by the stripper.
func (t *Tailer) Flush(w io.Writer) error {
	if t.strip == nil {
		return nil
	}
	if _, err := w.Write(t.strip.flush()); err != nil {
		return writeError{err}
	}
	t.offset.Store(t.received)
	return nil
}

// SeekTail moves to the beginning of the last lines that exist now; Ray's own do not count if they are stripped.
func (t *Tailer) SeekTail(ctx context.Context, lines int) error {
	body, err := t.source.Open(ctx, false)
	if err != nil {
		return err
	}
	defer body.Close()
	starts := &lineStarts{keep: lines, strip: t.strip}
	if _, err := io.Copy(starts, body); err != nil {
		return err
	}
	t.received = starts.first()
	t.offset.Store(t.received)
	return nil
}

// Lost records a broken stream. A refusal is not a lost connection: right after the start the file does not exist yet.
func (t *Tailer) Lost(err error) {
	if answered, _ := t.source.Answered(err); answered {
		t.log.Debug("the log is not readable now", "file", t.source.String(), "cause", err)
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.abort != nil {
		t.abort(err)
	}
	if !t.interrupted {
		t.interrupted = true
		if t.notify != nil {
			t.notify(err)
		}
	}
}

// found records that the connection is back.
func (t *Tailer) found() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.interrupted {
		t.interrupted = false
		if t.notify != nil {
			t.notify(nil)
		}
	}
}
