//go:build linux

package nfsmount

import (
	"sync"
	"syscall"
	"time"
)

// For how long a client believes attributes without asking (nfs(5): acregmin, acregmax, acdirmin, acdirmax): twice as long each time that they had not changed.
const (
	fileMin, fileMax = 3 * time.Second, 60 * time.Second
	dirMin, dirMax   = 30 * time.Second, 60 * time.Second
)

// inode is what this host knows of a file.
type inode struct {
	id     uint64 // the kernel's number of it
	handle Handle

	mu     sync.Mutex
	attr   Attr
	read   time.Time     // when the server returned them
	keep   time.Duration // believed for this long
	access map[Cred]permission
	names  map[string]*inode // of a directory: nil for a name that is not there
	stale  bool              // the server no longer has it
	open   int               // times that processes of this host have it open
	silly  *silly
}

// permission is what the server allowed a user, of what was asked.
type permission struct{ asked, allowed uint32 }

// learn takes attributes that the server sent. What others changed ends what is believed of names and permissions.
func (n *inode) learn(a *Attr) {
	if a == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.learned(a)
}

// learned is learn for who holds the lock.
func (n *inode) learned(a *Attr) {
	if a.Ctime.Before(n.attr.Ctime) {
		return // an answer that another one overtook
	}
	shortest, longest := fileMin, fileMax
	if a.Type == syscall.S_IFDIR {
		shortest, longest = dirMin, dirMax
	}
	now := time.Now()
	switch {
	case !same(n.attr, *a):
		n.keep, n.names, n.access = shortest, nil, nil
	case now.Sub(n.read) >= n.keep:
		n.keep = min(2*n.keep, longest)
	}
	n.attr, n.read = *a, now
}

func same(a, b Attr) bool {
	return a.Ctime.Equal(b.Ctime) && a.Mtime.Equal(b.Mtime) && a.Size == b.Size && a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID
}

// changed takes the answer to a change that this host made. If nobody else changed anything before it, what is known of names stays true.
func (n *inode) changed(c Change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.After == nil {
		n.read = time.Time{}
		return
	}
	names, access := n.names, n.access
	alone := c.Before != nil && c.Before.Ctime.Equal(n.attr.Ctime) && c.Before.Mtime.Equal(n.attr.Mtime) && c.Before.Size == n.attr.Size
	modeStays := c.After.Mode == n.attr.Mode && c.After.UID == n.attr.UID && c.After.GID == n.attr.GID
	n.learned(c.After)
	if alone {
		n.names = names
	}
	if alone && modeStays {
		n.access = access
	}
}

// name notes which file has a name, nil for none.
func (n *inode) name(name string, child *inode) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names == nil {
		n.names = map[string]*inode{}
	}
	n.names[name] = child
}

// unknown makes a name be asked for the next time.
func (n *inode) unknown(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.names, name)
}

// failed notes whether the server no longer knows the file.
func (n *inode) failed(e syscall.Errno) syscall.Errno {
	if e == syscall.ESTALE {
		n.mu.Lock()
		n.stale = true
		n.mu.Unlock()
	}
	return e
}

// attributes are those that are believed, or else what the server returns now. fresh asks in any case.
func (m *mount) attributes(cred Cred, n *inode, fresh bool) (Attr, syscall.Errno) {
	n.mu.Lock()
	known, believed, stale := n.attr, time.Since(n.read) < n.keep, n.stale
	n.mu.Unlock()
	if stale {
		return known, syscall.ESTALE
	}
	if believed && !fresh {
		return known, 0
	}
	attr, failed := m.server.Getattr(cred, n.handle)
	if failed != 0 {
		return known, n.failed(failed)
	}
	n.learn(attr)
	return *attr, 0
}

// allowed asks the server what of the wanted bits the user may do, and believes its answer for as long as the attributes.
func (m *mount) allowed(cred Cred, n *inode, wanted uint32) (uint32, syscall.Errno) {
	if _, failed := m.attributes(cred, n, false); failed != 0 {
		return 0, failed
	}
	n.mu.Lock()
	known := n.access[cred]
	n.mu.Unlock()
	if known.asked&wanted == wanted {
		return known.allowed & wanted, 0
	}
	wanted |= known.asked
	allowed, attr, failed := m.server.Access(cred, n.handle, wanted)
	n.learn(attr)
	if failed != 0 {
		return 0, n.failed(failed)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.access == nil {
		n.access = map[Cred]permission{}
	}
	n.access[cred] = permission{asked: wanted, allowed: allowed}
	return allowed, 0
}

// lookup finds a name in a directory, which the user must be allowed to pass. Names, and that a name is not there, are believed while the directory's
// attributes are, and after that if it has not changed.
func (m *mount) lookup(cred Cred, dir *inode, name string) (*inode, syscall.Errno) {
	allowed, failed := m.allowed(cred, dir, MayLookup)
	if failed != 0 {
		return nil, failed
	}
	if allowed&MayLookup == 0 {
		return nil, syscall.EACCES
	}
	dir.mu.Lock()
	child, known := dir.names[name]
	dir.mu.Unlock()
	switch {
	case known && child == nil:
		return nil, syscall.ENOENT
	case known:
		if _, failed := m.attributes(cred, child, false); failed != syscall.ESTALE {
			return child, failed
		}
	}
	found, attr, failed := m.server.Lookup(cred, dir.handle, name)
	dir.learn(attr)
	if failed == syscall.ENOENT {
		dir.name(name, nil)
	}
	if failed != 0 {
		return nil, dir.failed(failed)
	}
	return m.found(cred, dir, name, found)
}

// found notes a file that the server named, and asks for its attributes if they did not come along.
func (m *mount) found(cred Cred, dir *inode, name string, found Found) (*inode, syscall.Errno) {
	if found.Handle == "" {
		var failed syscall.Errno
		if found, _, failed = m.server.Lookup(cred, dir.handle, name); failed != 0 {
			return nil, failed
		}
	}
	child := m.inode(found.Handle)
	child.learn(found.Attr)
	if _, failed := m.attributes(cred, child, false); failed != 0 {
		return nil, failed
	}
	dir.name(name, child)
	return child, 0
}
