package nfsmount

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Cred is the user whose call it is, which the server believes (AUTH_SYS). Further groups are not sent: users of the testbed have none.
type Cred struct{ UID, GID uint32 }

// Conn is a connection to one of a server's services. As a file system mounted with `hard` it waits for a server that does not answer, for however long, and
// connects again to one that was away; calls without an answer are sent again then.
type Conn struct {
	address string
	service uint32 // RPC's number of it

	write sync.Mutex // held while a message is written
	conn  net.Conn   // nil while there is no connection

	mu      sync.Mutex
	pending map[uint32]*call
	next    uint32

	closed atomic.Bool
}

type call struct {
	message []byte
	answer  chan []byte
}

const (
	version       = 3 // of both services
	authSys       = 1
	again         = 100 * time.Millisecond // between attempts with a server that is away, or asks for patience
	longestAnswer = 4 << 20
)

func connect(address string, service uint32) *Conn {
	c := &Conn{address: address, service: service, pending: map[uint32]*call{}, next: uint32(time.Now().UnixNano())}
	go c.serve()
	return c
}

// serve connects, and connects again, until the connection is closed.
func (c *Conn) serve() {
	for !c.closed.Load() {
		conn, err := (&net.Dialer{Timeout: 5 * time.Second}).Dial("tcp", c.address)
		if err == nil {
			c.attach(conn)
			c.receive(conn)
			c.detach(conn)
		}
		time.Sleep(again)
	}
}

// attach makes conn the connection, and sends what has no answer yet. What cannot be written is sent over the next connection.
func (c *Conn) attach(conn net.Conn) {
	c.write.Lock()
	defer c.write.Unlock()
	c.conn = conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, waiting := range c.pending {
		_, _ = conn.Write(waiting.message)
	}
}

// close is for who waits for no answer any more.
func (c *Conn) close() {
	c.closed.Store(true)
	c.write.Lock()
	defer c.write.Unlock()
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

func (c *Conn) detach(conn net.Conn) {
	_ = conn.Close()
	c.write.Lock()
	defer c.write.Unlock()
	c.conn = nil
}

// receive hands out answers until the connection ends.
func (c *Conn) receive(conn net.Conn) {
	r := bufio.NewReaderSize(conn, 64<<10)
	for {
		message, err := record(r)
		if err != nil || len(message) < 4 {
			return
		}
		xid := binary.BigEndian.Uint32(message)
		c.mu.Lock()
		waiting := c.pending[xid]
		delete(c.pending, xid)
		c.mu.Unlock()
		if waiting != nil {
			waiting.answer <- message[4:]
		}
	}
}

// record reads one message, which may come in several fragments.
func record(r io.Reader) ([]byte, error) {
	var message []byte
	for last := false; !last; {
		var mark uint32
		if err := binary.Read(r, binary.BigEndian, &mark); err != nil {
			return nil, err
		}
		last = mark&lastFragment != 0
		size := int(mark &^ lastFragment)
		if len(message)+size > longestAnswer {
			return nil, fmt.Errorf("an answer of %d bytes", len(message)+size)
		}
		fragment := make([]byte, size)
		if _, err := io.ReadFull(r, fragment); err != nil {
			return nil, err
		}
		message = append(message, fragment...)
	}
	return message, nil
}

const lastFragment = 1 << 31

// call calls a procedure and waits for its answer.
func (c *Conn) call(cred Cred, procedure uint32, arguments []byte) (*decoder, error) {
	waiting := &call{answer: make(chan []byte, 1)}
	c.mu.Lock()
	c.next++
	xid := c.next
	c.mu.Unlock()
	waiting.message = c.message(xid, cred, procedure, arguments)
	c.send(xid, waiting)
	return accepted(<-waiting.answer)
}

func (c *Conn) send(xid uint32, waiting *call) {
	c.write.Lock()
	defer c.write.Unlock()
	c.mu.Lock()
	c.pending[xid] = waiting
	c.mu.Unlock()
	if c.conn != nil {
		_, _ = c.conn.Write(waiting.message) // an error ends the connection, and the next one sends it
	}
}

func (c *Conn) message(xid uint32, cred Cred, procedure uint32, arguments []byte) []byte {
	host, _ := os.Hostname() // only a name in the server's log
	var who encoder
	who.u32(0)
	who.text(host)
	who.u32(cred.UID)
	who.u32(cred.GID)
	who.u32(0)
	e := encoder{b: make([]byte, 4, len(arguments)+128)} // four bytes for the fragment's mark
	for _, v := range []uint32{xid, 0, 2, c.service, version, procedure, authSys} {
		e.u32(v)
	}
	e.opaque(who.b)
	e.u32(0) // no verifier
	e.opaque(nil)
	e.b = append(e.b, arguments...)
	binary.BigEndian.PutUint32(e.b, uint32(len(e.b)-4)|lastFragment)
	return e.b
}

// accepted reads an answer up to the procedure's own part.
func accepted(message []byte) (*decoder, error) {
	d := &decoder{b: message}
	kind, rejected := d.u32(), d.u32()
	if kind != 1 || rejected != 0 {
		return nil, errors.New("the server rejected a call")
	}
	_ = d.u32() // its verifier
	_ = d.opaque()
	if status := d.u32(); status != 0 || d.err != nil {
		return nil, fmt.Errorf("the server could not make a call: RPC status %d", status)
	}
	return d, nil
}
