package nfsmount

import (
	"crypto/rand"
	"slices"
	"syscall"
)

// Found is a file that has a name.
type Found struct {
	Handle Handle // "" where the server does not return it
	Attr   *Attr  // nil likewise
}

// Lookup asks which file has a name in a directory. The directory's attributes come also when there is none.
func (c *Conn) Lookup(cred Cred, dir Handle, name string) (Found, *Attr, syscall.Errno) {
	var e encoder
	e.entry(dir, name)
	d, failed := c.do(cred, 3, e)
	if failed != 0 {
		return Found{}, d.maybeAttr(), failed
	}
	found := Found{Handle: Handle(d.opaque()), Attr: d.maybeAttr()}
	return found, d.maybeAttr(), d.ended(0)
}

// Create makes a regular file. exclusive fails where the name exists (O_EXCL), also if the call is sent again: the file's attributes are to be set afterwards.
func (c *Conn) Create(cred Cred, dir Handle, name string, s Set, exclusive bool) (Found, Change, syscall.Errno) {
	var e encoder
	e.entry(dir, name)
	if exclusive {
		e.u32(2)
		e.fixed([]byte(rand.Text())[:8]) // distinguishes a call that is sent again from another's
	} else {
		e.u32(0)
		e.set(s)
	}
	return c.made(cred, 8, e)
}

// Mkdir makes a directory.
func (c *Conn) Mkdir(cred Cred, dir Handle, name string, s Set) (Found, Change, syscall.Errno) {
	var e encoder
	e.entry(dir, name)
	e.set(s)
	return c.made(cred, 9, e)
}

// Symlink makes a symbolic link.
func (c *Conn) Symlink(cred Cred, dir Handle, name, target string) (Found, Change, syscall.Errno) {
	var e encoder
	e.entry(dir, name)
	e.set(Set{})
	e.text(target)
	return c.made(cred, 10, e)
}

// Mknod makes a socket or a named pipe: kind is S_IFSOCK or S_IFIFO. Devices are not for users.
func (c *Conn) Mknod(cred Cred, dir Handle, name string, kind uint32, s Set) (Found, Change, syscall.Errno) {
	if kind != syscall.S_IFSOCK && kind != syscall.S_IFIFO {
		return Found{}, Change{}, syscall.EPERM
	}
	var e encoder
	e.entry(dir, name)
	e.u32(uint32(slices.Index(fileTypes, kind)))
	e.set(s)
	return c.made(cred, 11, e)
}

func (c *Conn) made(cred Cred, procedure uint32, e encoder) (Found, Change, syscall.Errno) {
	d, failed := c.do(cred, procedure, e)
	var found Found
	if failed == 0 {
		found = Found{Handle: d.maybeHandle(), Attr: d.maybeAttr()}
	}
	return found, d.change(), d.ended(failed)
}

// Remove removes a name of a file.
func (c *Conn) Remove(cred Cred, dir Handle, name string) (Change, syscall.Errno) {
	return c.removed(cred, 12, dir, name)
}

// Rmdir removes an empty directory.
func (c *Conn) Rmdir(cred Cred, dir Handle, name string) (Change, syscall.Errno) {
	return c.removed(cred, 13, dir, name)
}

func (c *Conn) removed(cred Cred, procedure uint32, dir Handle, name string) (Change, syscall.Errno) {
	var e encoder
	e.entry(dir, name)
	d, failed := c.do(cred, procedure, e)
	return d.change(), d.ended(failed)
}

// Rename gives a file another name, in place of whatever has it. The changes are those of the old and the new directory.
func (c *Conn) Rename(cred Cred, from Handle, name string, to Handle, newName string) (Change, Change, syscall.Errno) {
	var e encoder
	e.entry(from, name)
	e.entry(to, newName)
	d, failed := c.do(cred, 14, e)
	return d.change(), d.change(), d.ended(failed)
}

// Link gives a file one more name. It returns the file's attributes and the directory's change.
func (c *Conn) Link(cred Cred, file, dir Handle, name string) (*Attr, Change, syscall.Errno) {
	var e encoder
	e.handle(file)
	e.entry(dir, name)
	d, failed := c.do(cred, 15, e)
	return d.maybeAttr(), d.change(), d.ended(failed)
}

// Entry is a name in a directory.
type Entry struct {
	Name string
	ID   uint64 // inode number
	Found
}

// Read at once of a directory: bytes of names and bytes of all.
const (
	namesAtOnce = 32 << 10
	allAtOnce   = 256 << 10
)

// List lists a directory.
func (c *Conn) List(cred Cred, dir Handle) ([]Entry, *Attr, syscall.Errno) {
	var all []Entry
	var cookie uint64
	verifier := make([]byte, 8)
	for {
		var e encoder
		e.handle(dir)
		e.u64(cookie)
		e.fixed(verifier)
		e.u32(namesAtOnce)
		e.u32(allAtOnce)
		d, failed := c.do(cred, 17, e)
		attr := d.maybeAttr()
		if failed != 0 {
			return nil, attr, failed
		}
		verifier = slices.Clone(d.fixed(8))
		for d.yes() {
			entry := Entry{ID: d.u64(), Name: d.text()}
			cookie = d.u64()
			entry.Attr, entry.Handle = d.maybeAttr(), d.maybeHandle()
			all = append(all, entry)
		}
		if end := d.yes(); end || d.err != nil {
			return all, attr, d.ended(0)
		}
	}
}
