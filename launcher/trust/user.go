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

// self is who runs this process.
type self struct {
	uid  uint32
	name string // "" if the machine does not know it
	// home is the owner of the home directory. Who sets HOME chose it: in containers of CI systems, as of GitHub Actions, root works in
	// the home directory of the host's user.
	home uint32
}

func whoAmI() *self {
	me := &self{uid: uint32(os.Geteuid()), home: uint32(os.Geteuid())}
	if names := homes(); names != nil {
		if info, err := os.Stat(names[0]); err == nil {
			me.home = ownerOf(info, me.home)
		}
	}
	if u, err := user.Current(); err == nil { // of a user whom no file lists, as those of LDAP, $USER
		me.name = u.Username
	}
	return me
}

// owns refuses what belongs to somebody else than this user, the owner of the home directory, and root.
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

// onlyMember says whether a group stands for this user alone: it has the user's name, or is root's, and lists no other member. A number that
// stands for no group is the user's if it is the user's own, as in containers. Where the system cannot be asked no group is.
func (me *self) onlyMember(gid uint32) bool {
	if known, ok := groups.Load(gid); ok {
		return known.(bool)
	}
	only := me.askGroup(gid)
	groups.Store(gid, only)
	return only
}

// groups are answers of onlyMember: each costs a process.
var groups sync.Map

func (me *self) askGroup(gid uint32) bool {
	out, err := exec.Command("getent", "group", strconv.Itoa(int(gid))).Output() //nolint:noctx // a look into a data base; it also asks LDAP, as os/user does not
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 2 { // there is none
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
