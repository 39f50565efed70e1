package dashboardclient

import (
	"io"
	"os"
	"sync"
)

// upload opens the uploaded file anew for each try.
type upload struct {
	path     string
	size     int64
	progress func(sent, total int64)

	mutex  sync.Mutex
	closed bool
}

// newUpload is the body of a file of this size. progress may be nil.
func newUpload(path string, size int64, progress func(sent, total int64)) *upload {
	return &upload{path: path, size: size, progress: progress}
}

// Open implements retryablehttp.ReaderFunc. The transport closes the result.
func (b *upload) Open() (io.Reader, error) {
	file, err := os.Open(b.path)
	if err != nil {
		return nil, err
	}
	return &uploadReader{file: file, body: b}, nil
}

// Close stops the calls of progress: the transport may continue to read for a moment after the answer.
func (b *upload) Close() {
	b.mutex.Lock()
	b.closed = true
	b.mutex.Unlock()
}

func (b *upload) report(sent int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.progress != nil && !b.closed {
		b.progress(sent, b.size)
	}
}

// uploadReader is the file with a counter. It does not embed the file: the transport would find its descriptor and bypass Read.
type uploadReader struct {
	file *os.File
	body *upload
	sent int64
}

// Len gives retryablehttp the Content-Length.
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
