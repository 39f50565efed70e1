package dashboardclient

import (
	"io"
	"os"
	"sync"
)

// uploadBody opens the file of an upload anew for each try.
type uploadBody struct {
	path     string
	size     int64
	progress func(sent, total int64)

	mutex  sync.Mutex
	closed bool
}

// open implements retryablehttp.ReaderFunc. The transport closes what it returns.
func (b *uploadBody) open() (io.Reader, error) {
	file, err := os.Open(b.path)
	if err != nil {
		return nil, err
	}
	return &uploadReader{file: file, body: b}, nil
}

// close ends the calls of progress: the transport may go on reading for a moment after the answer.
func (b *uploadBody) close() {
	b.mutex.Lock()
	b.closed = true
	b.mutex.Unlock()
}

func (b *uploadBody) report(sent int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.progress != nil && !b.closed {
		b.progress(sent, b.size)
	}
}

// uploadReader is the file, counting. The file is not embedded: the transport would find its descriptor and send it past Read.
type uploadReader struct {
	file *os.File
	body *uploadBody
	sent int64
}

// Len tells retryablehttp the Content-Length.
func (r *uploadReader) Len() int { return int(r.body.size - r.sent) }

// Close implements io.Closer.
func (r *uploadReader) Close() error { return r.file.Close() }

func (r *uploadReader) Read(p []byte) (int, error) {
	n, err := r.file.Read(p)
	r.sent += int64(n)
	if n > 0 {
		r.body.report(r.sent)
	}
	return n, err
}
