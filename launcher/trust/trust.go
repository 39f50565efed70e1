// Package trust checks whether another user of this machine could have written a file, or could replace it: then rayctl neither runs its content
// nor writes secrets there. The checks are those of OpenSSH's StrictModes for authorized_keys (sshd_config(5)), and follow symbolic links. Open
// reads a file that another user may replace at any moment.
package trust

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"al.essio.dev/pkg/shellescape"
)

// Error is the reason why a path is not trusted.
type Error struct {
	Path   string // of the file or directory that somebody else can change
	Reason string // "belongs to alice"
}

func (e *Error) Error() string { return e.Path + " " + e.Reason }

// Check returns nil if only this user and root can change or replace the file or directory. It and every directory above it, also those above the
// targets of symbolic links, must belong to this user or root and be writable by nobody else. There are three exceptions. A directory above it may be
// writable by all if it has the sticky bit, as /tmp: only owners can replace what is in it. A group may have write access if its only member is the
// user, as in Debian's and Red Hat's OpenSSH, because a umask of 002 is common there. Directories above the home directory are not checked, as in
// OpenSSH: a user who can replace the home directory does not need rayctl.
//
// Check proceeds downwards, so that nobody can change what was checked already. An error is an *Error, or of the file system.
func Check(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	w := &walk{me: whoAmI(), homes: homes()}
	if err := w.begin(path); err != nil {
		return err
	}
	for len(w.rest) > 0 {
		if err := w.step(); err != nil {
			return err
		}
	}
	return nil
}

// MakeDir makes a directory of this user's own, with its parents, mode 0700. It refuses an existing one that Check does not trust.
func MakeDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return Check(path)
}

// CheckDir is MakeDir for readers: a directory that does not exist is trusted.
func CheckDir(path string) error {
	if err := Check(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// walk is the state of a path lookup.
type walk struct {
	me    *self
	homes []string
	at    string   // resolved so far, without links
	rest  []string // names still to be looked up from there
	links int
}

// maxLinks is Linux' limit of symbolic links in one lookup (path_resolution(7)).
const maxLinks = 40

// begin starts at the root, or at the home directory if path is below it. Names left from before follow those of path.
func (w *walk) begin(path string) error {
	w.at = "/"
	names := parts(path)
	for _, home := range w.homes {
		if rel, ok := strings.CutPrefix(path, home+"/"); ok || path == home {
			w.at, names = w.homes[len(w.homes)-1], parts(rel)
			break
		}
	}
	w.rest = append(names, w.rest...)
	return w.look(w.at)
}

// step checks the next name.
func (w *walk) step() error {
	name := w.rest[0]
	w.rest = w.rest[1:]
	if name == ".." {
		return w.begin(filepath.Dir(w.at))
	}
	next := filepath.Join(w.at, name)
	info, err := os.Lstat(next)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		w.at = next
		return w.look(next)
	}
	if w.links++; w.links > maxLinks {
		return &fs.PathError{Op: "open", Path: next, Err: syscall.ELOOP}
	}
	if err := w.me.owns(next, info); err != nil {
		return err
	}
	target, err := os.Readlink(next)
	if err != nil {
		return err
	}
	if filepath.IsAbs(target) {
		return w.begin(target)
	}
	w.rest = append(parts(target), w.rest...)
	return nil
}

// look checks owner and mode of one file or directory.
func (w *walk) look(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if err := w.me.owns(path, info); err != nil {
		return err
	}
	mode, onTheWay := info.Mode(), len(w.rest) > 0
	switch {
	case onTheWay && info.IsDir() && mode&fs.ModeSticky != 0:
		return nil
	case mode.Perm()&0o002 != 0:
		return &Error{path, "can be written by every user"}
	case mode.Perm()&0o020 != 0 && !w.me.onlyMember(groupOf(info)):
		return &Error{path, "can be written by the group " + groupName(groupOf(info))}
	}
	return nil
}

// parts splits a path into names and keeps "..", which after a link does not cancel the name before it.
func parts(path string) []string {
	var names []string
	for name := range strings.SplitSeq(path, "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// homes are the paths of the home directory: as given, and last without links.
func homes() []string {
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return nil
	}
	home = filepath.Clean(home)
	real, err := filepath.EvalSymlinks(home)
	if err != nil || home == "/" || real == "/" {
		return nil
	}
	return []string{home, real}
}

// Explain splits an error of Check for a sentence: the problem, and the fix if the directory is the user's own.
func Explain(err error) (reason, fix string) {
	var e *Error
	if !errors.As(err, &e) {
		return err.Error(), ""
	}
	if !strings.HasPrefix(e.Reason, "can be written") {
		return e.Error(), ""
	}
	fix = "`" + shellescape.QuoteCommand([]string{"chmod", "go-w", e.Path}) + "`"
	if slices.Contains(homes(), e.Path) { // which is nobody else's
		return "your home directory " + e.Error(), "run " + fix + ", after which only you can write there"
	}
	return e.Error(), fix + " if it is yours alone"
}
