package nfsmount

import (
	"syscall"
	"time"
)

// Handle is the server's name of a file. It means the same file for as long as that exists, whatever it is called.
type Handle string

// Attr are a file's attributes.
type Attr struct {
	Type, Mode, Links, UID, GID uint32 // Type as in Mode of stat(2): S_IFREG; Mode the other bits
	Size, Used, ID              uint64 // bytes, bytes, inode number
	Major, Minor                uint32
	Atime, Mtime, Ctime         time.Time
}

// Before are the attributes of a file just before a change that the server made for a client.
type Before struct {
	Size         uint64
	Mtime, Ctime time.Time
}

// Change is what a change did to a file or directory, as far as the server reports it: nil where it does not.
type Change struct {
	Before *Before
	After  *Attr
}

// Set are attributes to change: nil leaves one as it is.
type Set struct {
	Mode, UID, GID *uint32
	Size           *uint64
	Atime, Mtime   *time.Time
	AtimeNow       bool // the server's time
	MtimeNow       bool
}

// fileTypes are NFS' numbers (ftype3), from 1.
var fileTypes = []uint32{0, syscall.S_IFREG, syscall.S_IFDIR, syscall.S_IFBLK, syscall.S_IFCHR, syscall.S_IFLNK, syscall.S_IFSOCK, syscall.S_IFIFO}

func (d *decoder) attr() Attr {
	var a Attr
	if kind := int(d.u32()); kind < len(fileTypes) {
		a.Type = fileTypes[kind]
	}
	a.Mode, a.Links, a.UID, a.GID = d.u32(), d.u32(), d.u32(), d.u32()
	a.Size, a.Used = d.u64(), d.u64()
	a.Major, a.Minor = d.u32(), d.u32()
	_ = d.u64() // the file system's number
	a.ID = d.u64()
	a.Atime, a.Mtime, a.Ctime = d.time(), d.time(), d.time()
	return a
}

func (d *decoder) time() time.Time {
	seconds, nanoseconds := d.u32(), d.u32()
	return time.Unix(int64(seconds), int64(nanoseconds))
}

func (d *decoder) maybeAttr() *Attr {
	if !d.yes() {
		return nil
	}
	a := d.attr()
	return &a
}

func (d *decoder) maybeHandle() Handle {
	if !d.yes() {
		return ""
	}
	return Handle(d.opaque())
}

func (d *decoder) change() Change {
	var c Change
	if d.yes() {
		c.Before = &Before{Size: d.u64(), Mtime: d.time(), Ctime: d.time()}
	}
	c.After = d.maybeAttr()
	return c
}

func (e *encoder) set(s Set) {
	for _, value := range []*uint32{s.Mode, s.UID, s.GID} {
		if value == nil {
			e.u32(0)
			continue
		}
		e.u32(1)
		e.u32(*value)
	}
	if s.Size == nil {
		e.u32(0)
	} else {
		e.u32(1)
		e.u64(*s.Size)
	}
	e.setTime(s.Atime, s.AtimeNow)
	e.setTime(s.Mtime, s.MtimeNow)
}

func (e *encoder) setTime(t *time.Time, now bool) {
	switch {
	case now:
		e.u32(1)
	case t == nil:
		e.u32(0)
	default:
		e.u32(2)
		e.u32(uint32(t.Unix()))
		e.u32(uint32(t.Nanosecond()))
	}
}

// tryLater is NFS3ERR_JUKEBOX: the client is to call again.
const tryLater = 10008

// errno is the error of a system call for a server's status. Most numbers are the same.
func errno(status uint32) syscall.Errno {
	other := map[uint32]syscall.Errno{
		63: syscall.ENAMETOOLONG, 66: syscall.ENOTEMPTY, 69: syscall.EDQUOT, 70: syscall.ESTALE, 71: syscall.EREMOTE, 10001: syscall.ESTALE,
		10003: syscall.EINVAL, 10004: syscall.EOPNOTSUPP, 10007: syscall.EINVAL,
	}
	if e, ok := other[status]; ok {
		return e
	}
	if status > 40 {
		return syscall.EIO
	}
	return syscall.Errno(status)
}
