//go:build linux

package nfsmount

import (
	"fmt"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// silly is the name that a file has, since it was removed while open, until it is closed.
type silly struct {
	dir  *inode
	name string
	cred Cred
}

// made notes what a call made in a directory.
func (m *mount) made(who Cred, dir *inode, name string, made Found, change Change, failed syscall.Errno) (*inode, syscall.Errno) {
	dir.changed(change)
	if failed != 0 {
		return nil, dir.failed(failed)
	}
	return m.found(who, dir, name, made)
}

func (m *mount) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	dir, who, mode := m.node(in.NodeId), cred(in.Caller), in.Mode&0o7777
	made, change, failed := m.server.Mkdir(who, dir.handle, name, Set{Mode: &mode})
	n, failed := m.made(who, dir, name, made, change, failed)
	return entry(n, failed, out)
}

func (m *mount) Symlink(_ <-chan struct{}, in *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	dir, who := m.node(in.NodeId), cred(in.Caller)
	made, change, failed := m.server.Symlink(who, dir.handle, name, target)
	n, failed := m.made(who, dir, name, made, change, failed)
	return entry(n, failed, out)
}

func (m *mount) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	dir, who, kind, mode := m.node(in.NodeId), cred(in.Caller), in.Mode&syscall.S_IFMT, in.Mode&0o7777
	var made Found
	var change Change
	var failed syscall.Errno
	if kind == syscall.S_IFREG {
		made, change, failed = m.server.Create(who, dir.handle, name, Set{Mode: &mode}, false)
	} else {
		made, change, failed = m.server.Mknod(who, dir.handle, name, kind, Set{Mode: &mode})
	}
	n, failed := m.made(who, dir, name, made, change, failed)
	return entry(n, failed, out)
}

// Link refuses where files have one name only, as the clients of BeeGFS and CIFS do for link(2).
func (m *mount) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	if m.noLinks {
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	dir, file, who := m.node(in.NodeId), m.node(in.Oldnodeid), cred(in.Caller)
	attr, change, failed := m.server.Link(who, file.handle, dir.handle, name)
	dir.changed(change)
	file.learn(attr)
	if failed != 0 {
		return fuse.Status(file.failed(failed))
	}
	dir.name(name, file)
	return entry(file, 0, out)
}

// Unlink removes a name. A file that this host has open gets another one instead, until it is closed.
func (m *mount) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	dir, who := m.node(in.NodeId), cred(in.Caller)
	if kept, failed := m.keepOpen(who, dir, name); kept || failed != 0 {
		return fuse.Status(failed)
	}
	change, failed := m.server.Remove(who, dir.handle, name)
	return m.removed(dir, name, change, failed)
}

func (m *mount) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	dir := m.node(in.NodeId)
	change, failed := m.server.Rmdir(cred(in.Caller), dir.handle, name)
	return m.removed(dir, name, change, failed)
}

func (m *mount) removed(dir *inode, name string, change Change, failed syscall.Errno) fuse.Status {
	dir.mu.Lock()
	gone := dir.names[name]
	dir.mu.Unlock()
	dir.changed(change)
	if failed != 0 {
		return fuse.Status(dir.failed(failed))
	}
	dir.name(name, nil)
	if gone != nil {
		gone.doubt()
	}
	return fuse.OK
}

// doubt makes a file's attributes be asked for the next time.
func (n *inode) doubt() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.read = time.Time{}
}

// keepOpen renames a file that this host has open, where it would lose its name, for NFSv3's servers forget a file without one.
func (m *mount) keepOpen(who Cred, dir *inode, name string) (bool, syscall.Errno) {
	dir.mu.Lock()
	file := dir.names[name]
	dir.mu.Unlock()
	if file == nil {
		return false, 0
	}
	file.mu.Lock()
	needed, id := file.open > 0 && file.silly == nil, file.attr.ID
	file.mu.Unlock()
	if !needed {
		return false, 0
	}
	m.mu.Lock()
	m.next++
	hidden := fmt.Sprintf(".nfs%016x%08x", id, m.next)
	m.mu.Unlock()
	if failed := m.rename(who, dir, name, dir, hidden); failed != 0 {
		return false, failed
	}
	file.mu.Lock()
	file.silly = &silly{dir: dir, name: hidden, cred: who}
	file.mu.Unlock()
	return true, 0
}

func (m *mount) Rename(_ <-chan struct{}, in *fuse.RenameIn, name, newName string) fuse.Status {
	if in.Flags != 0 { // NFSv3 has no exchange, and no rename that spares what is there
		return fuse.EINVAL
	}
	from, to, who := m.node(in.NodeId), m.node(in.Newdir), cred(in.Caller)
	if _, failed := m.keepOpen(who, to, newName); failed != 0 {
		return fuse.Status(failed)
	}
	return fuse.Status(m.rename(who, from, name, to, newName))
}

func (m *mount) rename(who Cred, from *inode, name string, to *inode, newName string) syscall.Errno {
	from.mu.Lock()
	file := from.names[name]
	from.mu.Unlock()
	to.mu.Lock()
	replaced := to.names[newName]
	to.mu.Unlock()
	change, toChange, failed := m.server.Rename(who, from.handle, name, to.handle, newName)
	from.changed(change)
	if to != from {
		to.changed(toChange)
	}
	if failed != 0 {
		return from.failed(failed)
	}
	from.name(name, nil)
	for _, n := range []*inode{file, replaced} {
		if n != nil {
			n.doubt()
		}
	}
	if file == nil {
		to.unknown(newName)
	} else {
		to.name(newName, file)
	}
	return 0
}
