//go:build linux

// Package nfsmount mounts exports of an NFSv3 server as Linux does with its default options and `nolock`: hard, with attributes and names cached for nfs(5)'s
// times, content asked for anew when a file is opened (close-to-open), appending done by the client, and files that are removed while open kept as .nfsXXXX.
// Each call goes to the server as the user whose process makes it, and the server decides.
//
// What differs: writes go to the server at once, which Linux may keep for up to 30 s or until close, and what is read is not cached; a process that waits for
// the server cannot be killed.
//
// rpc.go, xdr.go, types.go, filecalls.go and namecalls.go speak version 3 of NFS (RFC 1813) over TCP (RFC 5531), each call as a user (AUTH_SYS). The kernels of the
// tests' machines have no client of NFS, and Go's libraries of it have one user for a connection, lose answers that come late, and lack procedures.
package nfsmount

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Export is a directory of a server to mount.
type Export struct {
	Files, Mounts string // the addresses of the server's two services
	Path          string // the server's name of the directory
	Dir           string // where it is mounted
	NoLinks       bool   // files have one name only
}

// mount is one mounted export. The kernel caches nothing itself: it asks each time, and what is cached is here.
type mount struct {
	fuse.RawFileSystem
	server  *Conn
	noLinks bool

	mu       sync.Mutex
	inodes   []*inode // by the kernel's numbers, from 1: the root. They stay: a testbed has few
	byHandle map[Handle]*inode
	opened   map[uint64]*opened
	next     uint64 // number of what is opened next
}

// Mount mounts an export. It stays mounted until the mount namespace ends.
func Mount(x Export) error {
	root, err := Root(x.Mounts, x.Path)
	if err != nil {
		return err
	}
	m := &mount{RawFileSystem: fuse.NewDefaultRawFileSystem(), server: Dial(x.Files), noLinks: x.NoLinks, byHandle: map[Handle]*inode{}, opened: map[uint64]*opened{}}
	m.inode(root)
	server, err := fuse.NewServer(m, x.Dir, &fuse.MountOptions{AllowOther: true, DirectMountStrict: true, DisableXAttrs: true, DisableReadDirPlus: true,
		FsName: x.Files + ":" + x.Path, Name: "nfs", MaxBackground: 64})
	if err != nil {
		return fmt.Errorf("mounting %s of %s at %s: %w", x.Path, x.Files, x.Dir, err)
	}
	go server.Serve()
	return server.WaitMount()
}

func (m *mount) String() string { return "nfs" }

// inode is the file with a handle.
func (m *mount) inode(h Handle) *inode {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.byHandle[h]; n != nil {
		return n
	}
	n := &inode{id: uint64(len(m.inodes) + 1), handle: h}
	m.inodes = append(m.inodes, n)
	m.byHandle[h] = n
	return n
}

func (m *mount) node(id uint64) *inode {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inodes[id-1]
}

func cred(c fuse.Caller) Cred { return Cred{UID: c.Uid, GID: c.Gid} }

func (m *mount) Forget(uint64, uint64) {}

// Lookup is called for every part of a path each time.
func (m *mount) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	n, failed := m.lookup(cred(in.Caller), m.node(in.NodeId), name)
	return entry(n, failed, out)
}

func entry(n *inode, failed syscall.Errno, out *fuse.EntryOut) fuse.Status {
	if failed != 0 {
		return fuse.Status(failed)
	}
	out.NodeId, out.Generation = n.id, 1
	n.mu.Lock()
	defer n.mu.Unlock()
	fill(&out.Attr, n.attr)
	return fuse.OK
}

func fill(out *fuse.Attr, a Attr) {
	out.Ino, out.Size, out.Blocks, out.Blksize = a.ID, a.Size, (a.Used+511)/512, 4096
	out.Mode, out.Nlink, out.Uid, out.Gid = a.Type|a.Mode, a.Links, a.UID, a.GID
	out.SetTimes(&a.Atime, &a.Mtime, &a.Ctime)
}

func (m *mount) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	attr, failed := m.attributes(cred(in.Caller), m.node(in.NodeId), false)
	fill(&out.Attr, attr)
	return fuse.Status(failed)
}

func (m *mount) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, who := m.node(in.NodeId), cred(in.Caller)
	if number, ok := in.GetFh(); ok { // ftruncate: as who opened it
		who = m.handle(number).cred
	}
	change, failed := m.server.Setattr(who, n.handle, set(in))
	n.changed(change)
	if failed != 0 {
		return fuse.Status(n.failed(failed))
	}
	attr, failed := m.attributes(who, n, false)
	fill(&out.Attr, attr)
	return fuse.Status(failed)
}

func set(in *fuse.SetAttrIn) Set {
	var s Set
	s.Mode, s.UID, s.GID = given(in.GetMode()), given(in.GetUID()), given(in.GetGID())
	s.Size, s.Atime, s.Mtime = given(in.GetSize()), given(in.GetATime()), given(in.GetMTime())
	if s.Mode != nil {
		*s.Mode &= 0o7777
	}
	s.AtimeNow, s.MtimeNow = in.Valid&fuse.FATTR_ATIME_NOW != 0, in.Valid&fuse.FATTR_MTIME_NOW != 0
	return s
}

func given[T uint32 | uint64 | time.Time](value T, ok bool) *T {
	if !ok {
		return nil
	}
	return &value
}

// Access answers access(2) and chdir(2); the kernel does not ask before it opens.
func (m *mount) Access(_ <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	n := m.node(in.NodeId)
	n.mu.Lock()
	isDir := n.attr.Type == syscall.S_IFDIR
	n.mu.Unlock()
	var wanted uint32
	if in.Mask&fuse.R_OK != 0 {
		wanted |= MayRead
	}
	if in.Mask&fuse.W_OK != 0 {
		wanted |= MayModify | MayExtend
	}
	if in.Mask&fuse.X_OK != 0 && isDir {
		wanted |= MayLookup
	} else if in.Mask&fuse.X_OK != 0 {
		wanted |= MayExec
	}
	return m.require(cred(in.Caller), n, wanted)
}

func (m *mount) require(who Cred, n *inode, wanted uint32) fuse.Status {
	allowed, failed := m.allowed(who, n, wanted)
	switch {
	case failed != 0:
		return fuse.Status(failed)
	case allowed&wanted != wanted:
		return fuse.EACCES
	}
	return fuse.OK
}

func (m *mount) Readlink(_ <-chan struct{}, in *fuse.InHeader) ([]byte, fuse.Status) {
	n := m.node(in.NodeId)
	target, failed := m.server.Readlink(cred(in.Caller), n.handle)
	return []byte(target), fuse.Status(n.failed(failed))
}

func (m *mount) StatFs(_ <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	const block = 4096
	space, failed := m.server.Fsstat(cred(in.Caller), m.node(1).handle)
	*out = fuse.StatfsOut{Blocks: space.Bytes / block, Bfree: space.FreeBytes / block, Bavail: space.AvailableBytes / block, Files: space.Files, Ffree: space.FreeFiles,
		Bsize: block, Frsize: block, NameLen: 255}
	return fuse.Status(failed)
}
