package tunnels

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// mux carries many connections over one byte stream; the far end is keeper/rayctl_keeper/slurm/access/relay.py. No goroutine stands between a connection's
// user and the stream. `make bench-slurm BENCH="-only tunnel"` measures it through srun.
//
// It speaks the frames of yamux (github.com/hashicorp/yamux, spec.md), but is not that library, which costs more of a login node's processors:
// there goroutines of the session read and write the frames for all connections. Here who writes writes the frame itself, and of those who wait one reads
// the frames for all. With the same far end on two processors, a 16 MiB upload takes 13 ms with this multiplexer and 31 ms with yamux 0.1.2 (30 and 49 ms while
// two other programs keep both processors busy), and a round trip 44 and 51 µs (equal while the processors are busy): medians, 2026-11-27,
// `go test -run NONE -bench . ./slurm/tunnels`. TestRelaySpeaksYamux holds that the far end serves the library, too.
type mux struct {
	pipe pipes
	in   *bufio.Reader // of the one who reads

	writing sync.Mutex // one frame at a time
	frame   []byte     // that is being written
	count   int        // of frames that had to wait

	mu      sync.Mutex
	conns   map[uint32]*muxConn
	number  uint32          // of the next connection
	reader  *muxConn        // whose user reads frames now
	standIn *muxConn        // for a writer who waits
	relief  int             // count of the frame that it is not needed for any more
	resets  map[uint32]bool // by the number of a closed connection: the far end is being told
	heard   time.Time
	probed  time.Time // zero: no probe is under way
	err     error     // why it is cut
	probe   *time.Timer
}

// pipes are a byte stream whose reads can be interrupted, and that has a method for how many bytes one write takes.
type pipes interface {
	io.ReadWriteCloser
	SetReadDeadline(time.Time) error
	// writeSome writes what there is room for now.
	writeSome(p []byte) (int, error)
}

// Frames: version (0), type, flags, connection, and a length: of the content of data, else a number.
const (
	muxHeader = 12
	muxFrame  = 64 << 10 // with its header as much as a pipe holds: one write, and one read

	frameData, frameWindow, framePing, frameGoAway = 0, 1, 2, 3

	flagSYN, flagACK, flagFIN, flagRST = 1, 2, 4, 8
)

const (
	firstWindow = 256 << 10 // bytes of a new connection that may be on their way, in each direction
	windowSize  = 4 << 20   // of what we take: on a busy machine word of what we took is late

	stall      = 100 * time.Millisecond // of a write, until frames are read for its sake
	probeEvery = 30 * time.Second       // while somebody waits
	silence    = 10 * time.Second       // after a probe, then the stream is taken for cut
)

func newMux(pipe pipes) *mux {
	m := &mux{pipe: pipe, in: bufio.NewReaderSize(pipe, muxFrame), conns: map[uint32]*muxConn{}, resets: map[uint32]bool{}, heard: time.Now()}
	m.standIn = m.conn(0)
	m.number = 1 // those of a client are odd
	m.probe = time.AfterFunc(probeEvery, m.ask)
	return m
}

// conn makes a connection known to this end. m.mu is locked, or m is new.
func (m *mux) conn(number uint32) *muxConn {
	c := &muxConn{m: m, number: number, credit: firstWindow}
	c.changed.L = &m.mu
	m.conns[number] = c
	return c
}

// open begins a connection, and waits until the far end acknowledges it: a stream may have been cut while it was idle.
func (m *mux) open(ctx context.Context) (net.Conn, error) {
	m.mu.Lock()
	c := m.conn(m.number)
	m.number += 2
	m.mu.Unlock()
	attend := context.AfterFunc(ctx, func() { _ = c.Close() }) // it ends the wait
	err := m.write(frameWindow, flagSYN, c.number, windowSize-firstWindow, nil)
	if err == nil {
		m.mu.Lock()
		err = m.until(c, func() bool { return c.known }, nil)
		m.mu.Unlock()
	}
	if !attend() {
		return nil, context.Cause(ctx)
	}
	return c, err
}

// write sends one frame.
func (m *mux) write(kind byte, flags uint16, number, length uint32, content []byte) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.frame = append(m.frame[:0], 0, kind)
	m.frame = binary.BigEndian.AppendUint16(m.frame, flags)
	m.frame = binary.BigEndian.AppendUint32(m.frame, number)
	m.frame = binary.BigEndian.AppendUint32(m.frame, length)
	m.frame = append(m.frame, content...)
	n, err := m.pipe.writeSome(m.frame)
	if err == nil && n < len(m.frame) {
		err = m.writeRest(m.frame[n:])
	}
	if err != nil {
		m.cut(err)
	}
	return err
}

// writeRest waits until the far end takes the rest of a frame. It may itself wait for us to take its own frames first; if nobody does, they are
// read meanwhile.
func (m *mux) writeRest(rest []byte) error {
	m.count++
	count := m.count
	stalled := time.AfterFunc(stall, func() { m.relieve(count) })
	_, err := m.pipe.Write(rest)
	if !stalled.Stop() {
		m.relieved(count)
	}
	return err
}

// relieve reads frames until one of ours is written.
func (m *mux) relieve(count int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.until(m.standIn, func() bool { return m.relief >= count }, nil) // the writer sees a failure, too
}

func (m *mux) relieved(count int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.relief = count
	m.standIn.nudge()
}

// until waits for what frames bring to c, and reads them for all unless somebody else does. m.mu is locked, but for the waiting.
func (m *mux) until(c *muxConn, happened func() bool, by *deadline) error {
	defer m.handOver()
	for {
		switch {
		case happened():
			return nil
		case c.closed:
			return net.ErrClosed
		case m.err != nil:
			return m.err
		case by.passed():
			return os.ErrDeadlineExceeded
		case m.reader != nil:
			c.waiting++
			c.changed.Wait()
			c.waiting--
			continue
		}
		m.reader = c
		m.mu.Unlock()
		err := m.readFrame()
		m.mu.Lock()
		m.reader = nil
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded): // nudged: the next round sees why
			_ = m.pipe.SetReadDeadline(time.Time{}) // if that fails the next read does
		case err != nil:
			m.fail(err)
		}
	}
}

// handOver lets another one read who waits. m.mu is locked.
func (m *mux) handOver() {
	if m.reader != nil {
		return
	}
	for _, c := range m.conns {
		if c.waiting > 0 {
			c.changed.Broadcast()
			return
		}
	}
}

// readFrame takes one frame from the stream. An error leaves what has arrived of it for the next read.
func (m *mux) readFrame() error {
	header, err := m.in.Peek(muxHeader)
	if err != nil {
		return err
	}
	kind, flags := header[1], binary.BigEndian.Uint16(header[2:])
	if header[0] != 0 || kind > frameGoAway {
		return fmt.Errorf("%.12q is no frame", header)
	}
	number, length := binary.BigEndian.Uint32(header[4:]), binary.BigEndian.Uint32(header[8:])
	size := muxHeader
	if kind == frameData {
		if length > muxFrame-muxHeader {
			return fmt.Errorf("a frame of %d bytes", length)
		}
		size += int(length)
	}
	whole, err := m.in.Peek(size)
	if err != nil {
		return err
	}
	err = m.take(kind, flags, number, length, whole[muxHeader:])
	_, _ = m.in.Discard(size) // it is there: it was peeked at
	return err
}

// take hands a frame to its connection. It returns an error for what no far end sends that keeps to the windows: otherwise it could have us store any amount.
func (m *mux) take(kind byte, flags uint16, number, length uint32, content []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard = time.Now()
	if kind != frameData && kind != frameWindow {
		return nil
	}
	if number%2 == 0 || number >= m.number {
		return fmt.Errorf("a frame for connection %d, which was never opened", number)
	}
	c := m.conns[number]
	if c == nil {
		if flags&(flagFIN|flagRST) == 0 {
			m.tellClosed(number)
		}
		return nil
	}
	if len(c.arrived)+len(content) > windowSize {
		return fmt.Errorf("more than the %d bytes that connection %d takes", windowSize, number)
	}
	if kind == frameWindow {
		c.credit += length
	}
	c.arrived = append(c.arrived, content...)
	c.known = c.known || flags&flagACK != 0
	c.finished = c.finished || flags&flagFIN != 0
	c.broken = c.broken || flags&flagRST != 0
	if c.waiting > 0 {
		c.changed.Broadcast()
	}
	return nil
}

// tellClosed resets a connection that is closed here. Who reads must not wait for a write; one is enough for all frames that come meanwhile. m.mu is locked.
func (m *mux) tellClosed(number uint32) {
	if m.resets[number] {
		return
	}
	m.resets[number] = true
	go func() {
		_ = m.write(frameWindow, flagRST, number, 0, nil) // a failure cuts the stream
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.resets, number)
	}()
}

// ask sends a probe while somebody reads, and cuts a stream that stays silent after it.
func (m *mux) ask() {
	m.mu.Lock()
	waited, now := m.reader != nil && m.err == nil, time.Now()
	silent := now.Sub(m.heard)
	unanswered := waited && m.heard.Before(m.probed)
	m.probed = time.Time{}
	next, send := probeEvery, waited && !unanswered && silent > silence
	if send {
		m.probed, next = now, silence
	}
	if m.err == nil {
		m.probe.Reset(next)
	}
	m.mu.Unlock()
	switch {
	case unanswered:
		m.cut(errors.New("no data arrived for " + silent.Round(time.Second).String()))
	case send:
		_ = m.write(framePing, flagSYN, 0, 0, nil) // a failure cuts the stream
	}
}

// cut ends all connections.
func (m *mux) cut(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail(err)
}

// fail is cut with m.mu locked.
func (m *mux) fail(err error) {
	if m.err != nil {
		return
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // EOF is the regular end of a connection
	}
	m.err = fmt.Errorf("the connection through srun was lost: %w", err)
	m.probe.Stop()
	_ = m.pipe.Close() // who reads now sees it
	for _, c := range m.conns {
		c.changed.Broadcast()
	}
}

// alive reports whether no error of the stream has been seen.
func (m *mux) alive() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err == nil
}
