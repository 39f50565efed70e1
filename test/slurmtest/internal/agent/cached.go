//go:build linux

package agent

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// What Linux' NFS client believes without asking its server (nfs(5), "Data and metadata coherence"; acregmin, acdirmin): for how long it uses the attributes of
// a file, and for how long the names in a directory and the absence of a name. What the client itself changes it knows at once, and open() asks for content
// anew (close-to-open). Names in a directory are believed longer here than there, where the client also looks at the directory's own time of change.
const (
	fileAttributes = 3 * time.Second
	names          = 30 * time.Second
)

// mountCached puts in front of each directory a file system that caches as an NFS client does, which the machines of the tests lack: each node has its own cache
// of the same files. Locks are each node's own, as of NFSv3 with `nolock`.
func mountCached(dirs []string) error {
	for _, dir := range dirs {
		if err := mountOne(dir); err != nil {
			return fmt.Errorf("mounting a cache of %s: %w", dir, err)
		}
	}
	return nil
}

func mountOne(dir string) error {
	behind, err := syscall.Open(dir, oPath|syscall.O_CLOEXEC, 0) // stays open: it is the server
	if err != nil {
		return err
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(dir, &stat); err != nil {
		return err
	}
	root := &fs.LoopbackRoot{Path: fmt.Sprintf("/proc/self/fd/%d", behind), Dev: stat.Dev}
	node := &cachedNode{LoopbackNode: fs.LoopbackNode{RootData: root}}
	root.RootNode = node
	attributes, known, missing := fileAttributes, names, names
	_, err = fs.Mount(dir, node, &fs.Options{
		AttrTimeout: &attributes, EntryTimeout: &known, NegativeTimeout: &missing, NullPermissions: true,
		MountOptions: fuse.MountOptions{AllowOther: true, DirectMountStrict: true, FsName: "cached", Options: []string{"default_permissions"}},
	})
	return err
}

// cachedNode reads and writes the server's content: nothing but attributes and names is cached.
type cachedNode struct{ fs.LoopbackNode }

func (n *cachedNode) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	loopback, _ := ops.(*fs.LoopbackNode)
	return &cachedNode{LoopbackNode: fs.LoopbackNode{RootData: loopback.RootData}}
}

func (n *cachedNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	file, flags, errno := n.LoopbackNode.Open(ctx, flags)
	return file, flags | fuse.FOPEN_DIRECT_IO, errno
}

func (n *cachedNode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, file, flags, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	return inode, file, flags | fuse.FOPEN_DIRECT_IO, errno
}
