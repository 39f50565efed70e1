package launcher

import "io"

// Meter reports the progress of a transfer as its bytes are read, from whichever goroutine reads.
type Meter struct {
	Progress
	Report func(Progress) // nil: no reports
}

// Reader wraps r and adds the bytes read from it to those of earlier readers.
func (m *Meter) Reader(r io.Reader) io.Reader {
	if m.Report == nil {
		return r
	}
	return metered{m, r}
}

type metered struct {
	*Meter
	r io.Reader
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if n > 0 {
		m.Done += int64(n)
		m.Report(m.Progress)
	}
	return n, err
}
