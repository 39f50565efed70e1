package nfsmount

import (
	"fmt"
	"syscall"
	"time"
)

// The services' numbers.
const (
	nfsService   = 100003
	mountService = 100005
)

// Dial connects to a server's files. It returns at once: calls wait for the connection.
func Dial(address string) *Conn { return connect(address, nfsService) }

// Root asks the mount service at address for the handle of an exported directory.
func Root(address, path string) (Handle, error) {
	var e encoder
	e.text(path)
	mounts := connect(address, mountService)
	defer mounts.close()
	d, err := mounts.call(Cred{}, 1, e.b)
	if err != nil {
		return "", err
	}
	if status := d.u32(); status != 0 {
		return "", fmt.Errorf("the server does not export %s: %w", path, errno(status))
	}
	return Handle(d.opaque()), d.err
}

// do calls a procedure of NFS. The answer is at what follows the status, which errors have, too.
func (c *Conn) do(cred Cred, procedure uint32, e encoder) (*decoder, syscall.Errno) {
	for {
		d, err := c.call(cred, procedure, e.b)
		if err != nil {
			return &decoder{err: err}, syscall.EIO
		}
		status := d.u32()
		if status != tryLater {
			return d, errno(status)
		}
		time.Sleep(again)
	}
}

// ended is the error of a call whose answer has been read.
func (d *decoder) ended(e syscall.Errno) syscall.Errno {
	if e == 0 && d.err != nil {
		return syscall.EIO
	}
	return e
}

// Getattr asks for a file's attributes.
func (c *Conn) Getattr(cred Cred, h Handle) (*Attr, syscall.Errno) {
	var e encoder
	e.handle(h)
	d, failed := c.do(cred, 1, e)
	if failed != 0 {
		return nil, failed
	}
	a := d.attr()
	return &a, d.ended(0)
}

// Setattr changes a file's attributes.
func (c *Conn) Setattr(cred Cred, h Handle, s Set) (Change, syscall.Errno) {
	var e encoder
	e.handle(h)
	e.set(s)
	e.u32(0) // whatever its time of change is
	d, failed := c.do(cred, 2, e)
	return d.change(), d.ended(failed)
}

// Bits of Access.
const (
	MayRead   = 0x01
	MayLookup = 0x02
	MayModify = 0x04
	MayExtend = 0x08
	MayExec   = 0x20
)

// Access asks which of the wanted bits the user has.
func (c *Conn) Access(cred Cred, h Handle, wanted uint32) (uint32, *Attr, syscall.Errno) {
	var e encoder
	e.handle(h)
	e.u32(wanted)
	d, failed := c.do(cred, 4, e)
	attr := d.maybeAttr()
	if failed != 0 {
		return 0, attr, failed
	}
	return d.u32(), attr, d.ended(0)
}

// Readlink reads a symbolic link.
func (c *Conn) Readlink(cred Cred, h Handle) (string, syscall.Errno) {
	var e encoder
	e.handle(h)
	d, failed := c.do(cred, 5, e)
	_ = d.maybeAttr()
	if failed != 0 {
		return "", failed
	}
	return d.text(), d.ended(0)
}

// Read reads at most count bytes from an offset: less may be all that the server gives at once.
func (c *Conn) Read(cred Cred, h Handle, offset uint64, count uint32) ([]byte, *Attr, syscall.Errno) {
	var e encoder
	e.handle(h)
	e.u64(offset)
	e.u32(count)
	d, failed := c.do(cred, 6, e)
	attr := d.maybeAttr()
	if failed != 0 {
		return nil, attr, failed
	}
	_, _ = d.u32(), d.u32() // count, end of file
	return d.opaque(), attr, d.ended(0)
}

// Write writes at an offset, into the server's memory: Commit makes it durable. It returns how many bytes the server took.
func (c *Conn) Write(cred Cred, h Handle, offset uint64, data []byte) (uint32, Change, syscall.Errno) {
	var e encoder
	e.handle(h)
	e.u64(offset)
	e.u32(uint32(len(data)))
	e.u32(0) // UNSTABLE
	e.opaque(data)
	d, failed := c.do(cred, 7, e)
	change := d.change()
	if failed != 0 {
		return 0, change, failed
	}
	return d.u32(), change, d.ended(0)
}

// Commit makes what was written durable.
func (c *Conn) Commit(cred Cred, h Handle) syscall.Errno {
	var e encoder
	e.handle(h)
	e.u64(0)
	e.u32(0) // all of it
	d, failed := c.do(cred, 21, e)
	return d.ended(failed)
}

// Space is how much room a file system has, in bytes and files.
type Space struct{ Bytes, FreeBytes, AvailableBytes, Files, FreeFiles uint64 }

// Fsstat asks for the room.
func (c *Conn) Fsstat(cred Cred, root Handle) (Space, syscall.Errno) {
	var e encoder
	e.handle(root)
	d, failed := c.do(cred, 18, e)
	_ = d.maybeAttr()
	if failed != 0 {
		return Space{}, failed
	}
	return Space{Bytes: d.u64(), FreeBytes: d.u64(), AvailableBytes: d.u64(), Files: d.u64(), FreeFiles: d.u64()}, d.ended(0)
}
