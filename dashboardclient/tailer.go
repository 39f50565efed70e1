package dashboardclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// streamIdleLimit is how long a live stream may pause before it is reopened: a tunnel may have lost it silently.
	streamIdleLimit = 10 * time.Minute
	// reopenWait is the pause before a lost stream is opened again.
	reopenWait = 250 * time.Millisecond
	copyBuffer = 256 << 10
)

// tailer copies one log file to a writer across lost connections. The API has no offset: each new stream begins with the
// first byte, and the tailer skips the bytes it already received.
type tailer struct {
	client   *Client
	file     logFile
	received int64         // raw bytes received from the server
	offset   atomic.Int64  // part of received that was written or skipped for good
	strip    *stripper     // nil: everything is written
	giveUp   time.Duration // limit of finish while the dashboard is unreachable; 0: none
	notify   func(error)   // gets a lost connection's cause, nil when it is back; may be nil

	mutex       sync.Mutex
	interrupted bool
	abort       context.CancelCauseFunc // of the open stream
}

// writeError is a failure of the caller's writer, which no retry can fix.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

// take writes the next raw bytes to w.
func (t *tailer) take(w io.Writer, raw []byte) error {
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

// follow copies present and future bytes until ctx ends (then it returns nil) or w fails.
func (t *tailer) follow(ctx context.Context, w io.Writer) error {
	for {
		err := t.followOnce(ctx, w)
		if ctx.Err() != nil {
			return nil
		}
		var fatal writeError
		if errors.As(err, &fatal) {
			return err
		}
		t.lost(err)
		if pause(ctx, reopenWait) != nil {
			return nil
		}
	}
}

// followOnce copies one stream until its end.
func (t *tailer) followOnce(ctx context.Context, w io.Writer) error {
	version, err := t.client.knownVersion(ctx)
	if err != nil {
		return err
	}
	attempt, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	t.mutex.Lock()
	t.abort = abort
	t.mutex.Unlock()
	if !version.canFollow() {
		return t.repeat(attempt, w)
	}
	idle := time.AfterFunc(streamIdleLimit, func() { abort(errors.New("the log stream was silent for long")) })
	defer idle.Stop()
	return t.copy(attempt, w, true, func() { idle.Reset(streamIdleLimit) })
}

// repeat reads the whole file repeatedly, for versions whose live streams cannot be read. It reads at most a fifth of the time.
func (t *tailer) repeat(ctx context.Context, w io.Writer) error {
	for {
		start := time.Now()
		if err := t.copy(ctx, w, false, nil); err != nil {
			return err
		}
		if err := pause(ctx, max(300*time.Millisecond, 4*time.Since(start))); err != nil {
			return err
		}
	}
}

// copy opens the file, skips the bytes received already and takes the rest. progress, if given, is called for each read.
func (t *tailer) copy(ctx context.Context, w io.Writer, follow bool, progress func()) error {
	body, err := t.client.openLog(ctx, t.file, -1, follow)
	if err != nil {
		return err
	}
	defer body.Close()
	t.found()
	skip := t.received
	buffer := make([]byte, copyBuffer)
	for {
		n, err := body.Read(buffer)
		if progress != nil {
			progress()
		}
		passed := min(skip, int64(n))
		skip -= passed
		if raw := buffer[passed:n]; len(raw) > 0 {
			if err := t.take(w, raw); err != nil {
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

// enough returns an error if the file was shorter than before: old dashboards answer with nothing when
// they cannot reach the node's agent.
func (t *tailer) enough(unseen int64) error {
	if unseen == 0 {
		return nil
	}
	return &APIError{Doing: "read log " + t.file.name, Status: http.StatusInternalServerError,
		Message: fmt.Sprintf("the cluster gave %d bytes fewer than before", unseen)}
}

// finish takes the rest of a file that no longer grows. It restores lost connections until ctx ends. A file that the server
// repeatedly cannot read gives its error.
func (t *tailer) finish(ctx context.Context, w io.Writer) error {
	start := time.Now()
	for refusals := 0; ; {
		err := t.copy(ctx, w, false, nil)
		if err == nil {
			return t.flush(w)
		}
		var fatal writeError
		if errors.As(err, &fatal) {
			return err
		}
		var answered *APIError
		if errors.As(err, &answered) {
			refusals++
		}
		if refusals > 3 || errors.Is(err, ErrUnauthorized) || t.giveUp > 0 && time.Since(start) > t.giveUp {
			return fmt.Errorf("the log cannot be read beyond byte %d: %w", t.offset.Load(), t.client.failure(ctx, ctx, "read log "+t.file.name, err))
		}
		t.lost(err)
		if err := pause(ctx, reopenWait); err != nil {
			return fmt.Errorf("read log %s beyond byte %d: %w", t.file.name, t.offset.Load(), err)
		}
	}
}

// flush writes the bytes held by the stripper.
func (t *tailer) flush(w io.Writer) error {
	if t.strip == nil {
		return nil
	}
	if _, err := w.Write(t.strip.flush()); err != nil {
		return writeError{err}
	}
	t.offset.Store(t.received)
	return nil
}

// seekTail moves to the beginning of the last lines that exist now; Ray's own do not count if they are stripped.
func (t *tailer) seekTail(ctx context.Context, lines int) error {
	body, err := t.client.openLog(ctx, t.file, -1, false)
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

// lost records a broken stream. A refusal is not a lost connection: right after the start the file does not exist yet.
func (t *tailer) lost(err error) {
	var answered *APIError
	if errors.As(err, &answered) {
		t.client.config.Logger.Debug("the log is not readable now", "file", t.file.name, "cause", err)
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
func (t *tailer) found() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.interrupted {
		t.interrupted = false
		if t.notify != nil {
			t.notify(nil)
		}
	}
}
