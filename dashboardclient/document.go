package dashboardclient

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// document is the body of a finite answer. A pause of more than silence is an error.
type document struct {
	io.ReadCloser
	Silence time.Duration
	stopped atomic.Bool
}

// Read implements io.Reader.
func (d *document) Read(p []byte) (int, error) {
	timer := time.AfterFunc(d.Silence, func() {
		d.stopped.Store(true)
		_ = d.Close() // ends the read
	})
	n, err := d.ReadCloser.Read(p)
	timer.Stop()
	if err != nil && d.stopped.Load() {
		err = fmt.Errorf("the answer stopped for %s before its end", d.Silence)
	}
	return n, err
}

// Documents of Ray are some megabytes: the longest known are lists of ten thousand tasks.
const (
	longestDocument = 128 << 20
	slowestDocument = 10 * time.Minute // until its last byte
)

// readDocument reads an answer, unless it is endless.
func readDocument(body io.ReadCloser) ([]byte, error) {
	var late atomic.Bool
	timer := time.AfterFunc(slowestDocument, func() {
		late.Store(true)
		_ = body.Close()
	})
	defer timer.Stop()
	text, err := io.ReadAll(io.LimitReader(body, longestDocument+1))
	switch {
	case late.Load():
		return nil, fmt.Errorf("the answer is too long: it had not ended after %s", slowestDocument)
	case len(text) > longestDocument:
		return nil, fmt.Errorf("the answer is too long: it has more than %d MiB", longestDocument>>20)
	}
	return text, err
}
