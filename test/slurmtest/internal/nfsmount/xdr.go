package nfsmount

import (
	"encoding/binary"
	"errors"
)

// encoder writes XDR (RFC 4506): everything is a multiple of four bytes, in network order.
type encoder struct{ b []byte }

func (e *encoder) u32(v uint32) { e.b = binary.BigEndian.AppendUint32(e.b, v) }
func (e *encoder) u64(v uint64) { e.b = binary.BigEndian.AppendUint64(e.b, v) }

func (e *encoder) fixed(b []byte) {
	e.b = append(e.b, b...)
	e.b = append(e.b, make([]byte, padding(len(b)))...)
}

func (e *encoder) opaque(b []byte) {
	e.u32(uint32(len(b)))
	e.fixed(b)
}

func (e *encoder) text(s string)   { e.opaque([]byte(s)) }
func (e *encoder) handle(h Handle) { e.opaque([]byte(h)) }

func (e *encoder) entry(dir Handle, name string) {
	e.handle(dir)
	e.text(name)
}

// decoder reads XDR. After the end of its input it returns zeros, and err is set.
type decoder struct {
	b   []byte
	err error
}

var errShort = errors.New("the server's answer is too short")

func (d *decoder) fixed(n int) []byte {
	whole := n + padding(n)
	if n < 0 || whole > len(d.b) {
		d.b, d.err = nil, errShort
		return make([]byte, min(max(n, 0), 64))
	}
	value := d.b[:n]
	d.b = d.b[whole:]
	return value
}

func (d *decoder) u32() uint32    { return binary.BigEndian.Uint32(d.fixed(4)) }
func (d *decoder) u64() uint64    { return binary.BigEndian.Uint64(d.fixed(8)) }
func (d *decoder) yes() bool      { return d.u32() != 0 }
func (d *decoder) opaque() []byte { return d.fixed(int(d.u32())) }
func (d *decoder) text() string   { return string(d.opaque()) }

func padding(n int) int { return -n & 3 }
