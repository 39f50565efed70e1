package trust

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// self is the user of this process.
type self struct {
	uid  uint32
	name string // "" if unknown to the machine
	// home is the owner of the home directory, trusted because the caller chose HOME: in containers of CI systems, such as GitHub Actions,
	// root works in the home directory of the host's user.
	home uint32
}

func whoAmI() *self {
	me := &self{uid: uint32(os.Geteuid()), home: uint32(os.Geteuid())}
	if names := homes(); names != nil {
		if info, err := os.Stat(names[0]); err == nil {
			me.home = ownerOf(info, me.home)
		}
	}
	if u, err := user.Current(); err == nil { // for users in no local file, such as those of LDAP, $USER
		me.name = u.Username
	}
	return me
}

// owns rejects files of users other than this user, the owner of the home directory, and root.
func (me *self) owns(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return &Error{path, "has no owner"}
	case st.Uid == me.uid, st.Uid == 0, st.Uid == me.home:
		return nil
	}
	return &Error{path, "belongs to " + userName(st.Uid)}
}

// onlyMember reports whether a group has no member but this user: it has the user's name, or is root's, and lists no other member. A group id
// without a group counts if it equals the user's id, as in containers. If the system cannot be queried the result is false.
func (me *self) onlyMember(gid uint32) bool {
	if known, ok := groups.Load(gid); ok {
		return known.(bool)
	}
	only := me.askGroup(gid)
	groups.Store(gid, only)
	return only
}

// groups caches onlyMember, because each query costs a process.
var groups sync.Map

func (me *self) askGroup(gid uint32) bool {
	out, err := exec.Command("getent", "group", strconv.Itoa(int(gid))).Output() //nolint:noctx // a look into a data base; it also asks LDAP, as os/user does not
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 2 { // no such group
		return gid == me.uid
	}
	entry := strings.Split(strings.TrimSpace(string(out)), ":") // name:password:gid:members
	if err != nil || len(entry) != 4 {
		return false
	}
	if gid != 0 && (me.name == "" || entry[0] != me.name) {
		return false
	}
	for member := range strings.SplitSeq(entry[3], ",") {
		if member != "" && member != me.name && member != "root" {
			return false
		}
	}
	return true
}

func ownerOf(info fs.FileInfo, other uint32) uint32 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Uid
	}
	return other
}

func groupOf(info fs.FileInfo) uint32 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Gid
	}
	return 0
}

func groupName(gid uint32) string {
	number := strconv.Itoa(int(gid))
	if g, err := user.LookupGroupId(number); err == nil {
		return g.Name
	}
	return number
}

func userName(uid uint32) string {
	number := strconv.Itoa(int(uid))
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return "user " + number
}
