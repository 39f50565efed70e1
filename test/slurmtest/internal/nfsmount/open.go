//go:build linux

package nfsmount

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// opened is a file or directory that a process has open. The server is asked as who opened it, whoever uses it later.
type opened struct {
	*inode
	cred    Cred
	appends bool
	entries []Entry // of a directory, as its reading began
}

// forExec is in the flags of an open for execve (FMODE_EXEC).
const forExec = 0x20

func (m *mount) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n, who := m.node(in.NodeId), cred(in.Caller)
	if _, failed := m.attributes(who, n, true); failed != 0 { // close-to-open; ESTALE makes the kernel look the name up once more
		return fuse.Status(failed)
	}
	if status := m.require(who, n, wantedFor(in.Flags)); status != fuse.OK {
		return status
	}
	out.Fh, out.OpenFlags = m.openFile(n, who, in.Flags), fuse.FOPEN_DIRECT_IO
	return fuse.OK
}

func wantedFor(flags uint32) uint32 {
	if flags&forExec != 0 {
		return MayExec
	}
	switch flags & syscall.O_ACCMODE {
	case syscall.O_RDONLY:
		return MayRead
	case syscall.O_WRONLY:
		return MayModify | MayExtend
	default:
		return MayRead | MayModify | MayExtend
	}
}

func (m *mount) openFile(n *inode, who Cred, flags uint32) uint64 {
	n.mu.Lock()
	n.open++
	n.mu.Unlock()
	return m.keep(&opened{inode: n, cred: who, appends: flags&syscall.O_APPEND != 0})
}

func (m *mount) keep(f *opened) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next++
	m.opened[m.next] = f
	return m.next
}

func (m *mount) handle(number uint64) *opened {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.opened[number]
}

func (m *mount) forget(number uint64) *opened {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.opened[number]
	delete(m.opened, number)
	return f
}

// Create opens a file that this host believed not to be there.
func (m *mount) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	dir, who := m.node(in.NodeId), cred(in.Caller)
	exclusive, mode := in.Flags&syscall.O_EXCL != 0, in.Mode&0o7777
	made, change, failed := m.server.Create(who, dir.handle, name, Set{Mode: &mode}, exclusive)
	n, failed := m.made(who, dir, name, made, change, failed)
	if failed == 0 && exclusive { // the server kept the call's number in the times
		change, failed = m.server.Setattr(who, n.handle, Set{Mode: &mode, AtimeNow: true, MtimeNow: true})
		n.changed(change)
	}
	if status := entry(n, failed, &out.EntryOut); status != fuse.OK {
		return status
	}
	out.Fh, out.OpenFlags = m.openFile(n, who, in.Flags), fuse.FOPEN_DIRECT_IO
	return fuse.OK
}

// Read reads no further than the size that is believed: what others have appended is seen when the attributes are asked for again.
func (m *mount) Read(_ <-chan struct{}, in *fuse.ReadIn, buffer []byte) (fuse.ReadResult, fuse.Status) {
	f := m.handle(in.Fh)
	attr, failed := m.attributes(f.cred, f.inode, false)
	if failed != 0 {
		return nil, fuse.Status(failed)
	}
	if in.Offset >= attr.Size {
		return fuse.ReadResultData(nil), fuse.OK
	}
	wanted := min(uint64(len(buffer)), attr.Size-in.Offset)
	read := buffer[:0]
	for uint64(len(read)) < wanted {
		data, attr, failed := m.server.Read(f.cred, f.handle, in.Offset+uint64(len(read)), uint32(wanted)-uint32(len(read)))
		f.learn(attr)
		if failed != 0 {
			return nil, fuse.Status(f.failed(failed))
		}
		if len(data) == 0 {
			break
		}
		read = append(read, data...)
	}
	return fuse.ReadResultData(read), fuse.OK
}

// Write appends, where that was asked for, at the size that is believed, as Linux does: hosts that append to one file overwrite one another.
func (m *mount) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	f, offset := m.handle(in.Fh), in.Offset
	if f.appends {
		attr, failed := m.attributes(f.cred, f.inode, false)
		if failed != 0 {
			return 0, fuse.Status(failed)
		}
		offset = attr.Size
	}
	var written uint32
	for int(written) < len(data) {
		n, change, failed := m.server.Write(f.cred, f.handle, offset+uint64(written), data[written:])
		f.changed(change)
		if failed != 0 {
			return written, fuse.Status(f.failed(failed))
		}
		written += n
	}
	return written, fuse.OK
}

func (m *mount) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK } // all is written

func (m *mount) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	f := m.handle(in.Fh)
	return fuse.Status(f.failed(m.server.Commit(f.cred, f.handle)))
}

// Release is called when the last descriptor of an open file is closed. A file removed meanwhile goes now.
func (m *mount) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	f := m.forget(in.Fh)
	f.mu.Lock()
	f.open--
	left := f.silly
	if f.open > 0 {
		left = nil
	}
	if left != nil {
		f.silly = nil
	}
	f.mu.Unlock()
	if left != nil {
		change, _ := m.server.Remove(left.cred, left.dir.handle, left.name)
		left.dir.changed(change)
		left.dir.name(left.name, nil)
	}
}

func (m *mount) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n, who := m.node(in.NodeId), cred(in.Caller)
	if _, failed := m.attributes(who, n, true); failed != 0 {
		return fuse.Status(failed)
	}
	if status := m.require(who, n, MayRead); status != fuse.OK {
		return status
	}
	out.Fh = m.keep(&opened{inode: n, cred: who})
	return fuse.OK
}

// ReadDir lists a directory; its attributes, names and files are known anew then (READDIRPLUS).
func (m *mount) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	f := m.handle(in.Fh)
	if in.Offset == 0 {
		entries, attr, failed := m.server.List(f.cred, f.handle)
		f.learn(attr)
		if failed != 0 {
			return fuse.Status(f.failed(failed))
		}
		f.entries = entries
	}
	for i := in.Offset; i < uint64(len(f.entries)); i++ {
		e := f.entries[i]
		shown := fuse.DirEntry{Name: e.Name, Ino: e.ID, Off: i + 1}
		if e.Attr != nil {
			shown.Mode = e.Attr.Type
		}
		if !out.AddDirEntry(shown) {
			break
		}
		if e.Handle != "" && e.Attr != nil && e.Name != "." && e.Name != ".." {
			child := m.inode(e.Handle)
			child.learn(e.Attr)
			f.name(e.Name, child)
		}
	}
	return fuse.OK
}

func (m *mount) ReleaseDir(in *fuse.ReleaseIn) { m.forget(in.Fh) }

func (m *mount) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK } // servers make directories durable at once
