package logstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
)

// file is a log of which Ray gives at each request all that it has then (dashboard/modules/log/log_agent.py).
type file struct{ now string }

func (f *file) String() string { return "log" }
func (f *file) Open(context.Context, bool) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader([]byte(f.now))), nil
}
func (f *file) CanFollow(context.Context) (bool, error)    { return true, nil }
func (f *file) Answered(error) (answered, final bool)      { return true, true }
func (f *file) Explain(_ context.Context, err error) error { return err }
func (f *file) Shorter(int64) error                        { return errShorter }

var errShorter = errors.New("shorter")

// TestTruncated: a log that begins in another way than before was truncated: a note has the place, and all that it has now follows. One that is only shorter
// is one that Ray cannot read.
func TestTruncated(t *testing.T) {
	for _, test := range []struct{ before, after, want string }{
		{"a\nb\n", "a\nb\nc\n", "a\nb\nc\n"},
		{"a\nb\n", "c\n", "a\nb\n" + Truncated + "c\n"},
		{"a\nb\n", "a\nc\nddddd\n", "a\nb\n" + Truncated + "a\nc\nddddd\n"},
		{"a\nb\n", "a\n", "a\nb\n"},
	} {
		f := &file{now: test.before}
		tailer := NewTailer(f, nil, 0, slog.New(slog.DiscardHandler), nil)
		var got bytes.Buffer
		if err := tailer.Finish(t.Context(), &got); err != nil {
			t.Fatal(err)
		}
		f.now = test.after
		for range 2 { // once more shows nothing
			err := tailer.Finish(t.Context(), &got)
			if (err != nil) != (test.after == "a\n") || err != nil && !errors.Is(err, errShorter) {
				t.Errorf("%q after %q: %v", test.after, test.before, err)
			}
		}
		if got.String() != test.want {
			t.Errorf("%q after %q: %q, not %q", test.after, test.before, got.String(), test.want)
		}
	}
}
