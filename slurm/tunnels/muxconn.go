package tunnels

import (
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// muxConn is one connection of a mux.
type muxConn struct {
	m      *mux
	number uint32

	sending sync.Mutex // one Write at a time, and the end after it

	// Guarded by m.mu.
	changed  sync.Cond
	waiting  int    // who waits for changed
	arrived  []byte // and not yet read
	taken    uint32 // bytes read that were not reported to the far end
	credit   uint32 // bytes that the far end takes
	known    bool   // to the far end
	finished bool   // the far end sends no more
	broken   bool   // the far end has no such connection
	ended    bool   // we send no more
	closed   bool
	readBy   deadline
	writeBy  deadline
}

// deadline of a read or a write; guarded by the mux's lock.
type deadline struct {
	at    time.Time // zero: none
	alarm *time.Timer
}

func (d *deadline) passed() bool { return d != nil && !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) set(t time.Time, ring func()) {
	if d.alarm != nil {
		d.alarm.Stop()
	}
	if d.at = t; !t.IsZero() {
		d.alarm = time.AfterFunc(time.Until(t), ring)
	}
}

// Read implements net.Conn.
func (c *muxConn) Read(p []byte) (int, error) {
	n, tell, err := c.read(p)
	if tell > 0 {
		_ = c.m.write(frameWindow, 0, c.number, tell, nil) // a failure is seen by the next Read
	}
	return n, err
}

// read also returns the window update to send: one for many reads.
func (c *muxConn) read(p []byte) (n int, tell uint32, err error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if err := c.m.until(c, func() bool { return len(c.arrived) > 0 || c.finished || c.broken }, &c.readBy); err != nil {
		return 0, 0, err
	}
	if len(c.arrived) == 0 {
		if c.broken {
			return 0, 0, syscall.ECONNRESET
		}
		return 0, 0, io.EOF
	}
	n = copy(p, c.arrived)
	if c.arrived = c.arrived[n:]; len(c.arrived) == 0 {
		c.arrived = nil
	}
	if c.taken += uint32(n); c.taken >= windowSize/4 {
		tell, c.taken = c.taken, 0
	}
	return n, tell, nil
}

// Write implements net.Conn.
func (c *muxConn) Write(p []byte) (written int, err error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	for len(p) > 0 {
		n, err := c.mayWrite(len(p))
		if err != nil {
			return written, err
		}
		if err := c.m.write(frameData, 0, c.number, uint32(n), p[:n]); err != nil {
			return written, err
		}
		written, p = written+n, p[n:]
	}
	return written, nil
}

// mayWrite waits until the far end accepts data, and returns how many of the wanted bytes.
func (c *muxConn) mayWrite(wanted int) (int, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.ended:
		return 0, syscall.EPIPE
	}
	if err := c.m.until(c, func() bool { return c.credit > 0 || c.broken }, &c.writeBy); err != nil {
		return 0, err
	}
	if c.broken {
		return 0, syscall.ECONNRESET
	}
	n := min(wanted, int(c.credit), muxFrame-muxHeader)
	c.credit -= uint32(n)
	return n, nil
}

// CloseWrite sends the end of the stream to the far end, after a Write that is under way. Reading goes on.
func (c *muxConn) CloseWrite() error {
	c.sending.Lock()
	defer c.sending.Unlock()
	first, err := c.endWriting()
	if first {
		err = c.m.write(frameWindow, flagFIN, c.number, 0, nil)
	}
	return err
}

// endWriting reports whether the FIN is still to be sent.
func (c *muxConn) endWriting() (first bool, err error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	switch {
	case c.closed:
		return false, net.ErrClosed
	case c.m.err != nil:
		return false, c.m.err
	case c.broken:
		return false, syscall.ECONNRESET
	}
	first, c.ended = !c.ended, true
	return first, nil
}

// Close implements net.Conn. What was written still arrives, unless there is something that was not read, as with TCP.
func (c *muxConn) Close() error {
	if flag := c.leave(); flag != 0 {
		return c.m.write(frameWindow, flag, c.number, 0, nil)
	}
	return nil
}

// leave forgets the connection, and returns the flag to send: a reset where data is left unread. Without it the far end, whose window stays closed, would
// send nothing that we could answer by a reset, would not poll the node's connection, and would keep it for ever.
func (c *muxConn) leave() (flag uint16) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.closed {
		return 0
	}
	switch {
	case c.broken, c.m.err != nil:
	case len(c.arrived) > 0:
		flag = flagRST
	case !c.ended:
		flag = flagFIN
	}
	c.closed, c.arrived = true, nil
	delete(c.m.conns, c.number)
	c.nudge()
	return flag
}

// nudge wakes those who wait on this connection, so that they check its state again; c.m.mu is locked.
func (c *muxConn) nudge() {
	c.changed.Broadcast()
	if c.m.reader == c {
		_ = c.m.pipe.SetReadDeadline(time.Unix(1, 0)) // it fails only on a closed pipe, which wakes the reader, too
	}
}

// SetDeadline implements net.Conn.
func (c *muxConn) SetDeadline(t time.Time) error {
	c.setDeadline(t, &c.readBy, &c.writeBy)
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *muxConn) SetReadDeadline(t time.Time) error {
	c.setDeadline(t, &c.readBy)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *muxConn) SetWriteDeadline(t time.Time) error {
	c.setDeadline(t, &c.writeBy)
	return nil
}

func (c *muxConn) setDeadline(t time.Time, which ...*deadline) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	for _, d := range which {
		d.set(t, func() {
			c.m.mu.Lock()
			defer c.m.mu.Unlock()
			c.nudge()
		})
	}
}

// LocalAddr implements net.Conn.
func (c *muxConn) LocalAddr() net.Addr { return muxAddr{} }

// RemoteAddr implements net.Conn.
func (c *muxConn) RemoteAddr() net.Addr { return muxAddr{} }

// muxAddr is no address: the connection goes through a command.
type muxAddr struct{}

// Network implements net.Addr.
func (muxAddr) Network() string { return "srun" }

// String implements net.Addr.
func (muxAddr) String() string { return "srun" }
