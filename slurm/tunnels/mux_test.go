package tunnels

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"sync"
	"testing"
	"time"
)

// farEnd is a byte stream whose far end sends some bytes, takes all that is sent to it, and then is gone.
type farEnd struct{ *bytes.Reader }

func (farEnd) Write(p []byte) (int, error)     { return len(p), nil }
func (farEnd) Close() error                    { return nil }
func (farEnd) SetReadDeadline(time.Time) error { return nil }
func (farEnd) writeSome(p []byte) (int, error) { return len(p), nil }

func frame(version, kind byte, flags uint16, number, length uint32, content string) []byte {
	b := binary.BigEndian.AppendUint16([]byte{version, kind}, flags)
	b = binary.BigEndian.AppendUint32(b, number)
	return append(binary.BigEndian.AppendUint32(b, length), content...)
}

// FuzzFrames: whatever the far end sends, each user of a connection gets an end, and no connection stores more than its window.
func FuzzFrames(f *testing.F) {
	greeting := frame(0, frameWindow, flagACK, 1, windowSize-firstWindow, "")
	for _, more := range [][]byte{
		nil,
		frame(0, frameData, 0, 1, 5, "hello"),
		append(frame(0, frameData, 0, 1, 5, "hello"), frame(0, frameWindow, flagFIN, 1, 0, "")...),
		frame(0, frameWindow, flagRST, 3, 0, ""),
		frame(0, framePing, flagSYN, 0, 7, ""),
		frame(0, frameGoAway, 0, 0, 0, ""),
		frame(0, frameData, 0, 0, 5, "hello"),     // to nobody, which nobody reads
		frame(0, frameData, 0, 99, 5, "hello"),    // never opened
		frame(0, frameData, 0, 5, 5, "hello"),     // closed here
		frame(0, frameData, 0, 1, 1<<31, "hello"), // longer than a frame
		frame(0, frameWindow, 0, 1, 1<<32-1, ""),
		[]byte("srun: error: a message among the frames\n"),
		frame(1, frameData, 0, 1, 5, "hello"),
		frame(0, 9, 0, 1, 5, "hello"),
	} {
		f.Add(append(bytes.Clone(greeting), more...))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		m := newMux(farEnd{bytes.NewReader(sent)})
		defer m.cut(io.EOF)
		m.mu.Lock()
		conns := []*muxConn{m.conn(1), m.conn(3), m.conn(5)}
		m.number = 7
		m.mu.Unlock()
		_ = conns[2].Close()
		var all sync.WaitGroup
		for _, c := range conns[:2] {
			all.Go(func() {
				_, _ = io.Copy(io.Discard, struct{ io.Reader }{c})
				_, _ = c.Write([]byte("x"))
			})
		}
		all.Go(func() {
			if c, err := m.open(context.Background()); err == nil {
				_ = c.Close()
			}
		})
		all.Wait()
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, c := range m.conns {
			if len(c.arrived) > windowSize {
				t.Errorf("connection %d stores %d bytes", c.number, len(c.arrived))
			}
		}
		if len(m.standIn.arrived) > 0 || len(m.resets) > 1 {
			t.Errorf("the stand-in has %d bytes, and %d resets are under way", len(m.standIn.arrived), len(m.resets))
		}
	})
}

// TestWindowIsKept: a far end that sends more than a connection takes is cut, instead of stored.
func TestWindowIsKept(t *testing.T) {
	content := string(make([]byte, muxFrame-muxHeader))
	piece := frame(0, frameData, 0, 1, muxFrame-muxHeader, content)
	m := newMux(farEnd{bytes.NewReader(bytes.Repeat(piece, windowSize/len(content)+2))})
	m.mu.Lock()
	stored, reads := m.conn(1), m.conn(3)
	m.number = 5
	m.mu.Unlock()
	if _, err := reads.Read(make([]byte, 1)); err == nil || len(stored.arrived) > windowSize {
		t.Errorf("%d bytes are stored, %v", len(stored.arrived), err)
	}
}
