package launcher

import "io"

// Meter reports how far something has come as its bytes are read, from whatever goroutine reads.
type Meter struct {
	Progress
	Report func(Progress) // nil: nobody listens
}

// Reader passes r on and counts what is read, after what was read of others before.
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
