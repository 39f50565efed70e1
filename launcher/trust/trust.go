// Package trust says whether somebody else on this machine could have written a file, or could replace it: then rayctl neither runs what is in
// it, nor writes secrets there. It asks what OpenSSH's StrictModes asks of authorized_keys (sshd_config(5)), and follows symbolic links.
package trust

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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

// Check returns nil if only this user and root can change the file or directory, or put another one in its place: it and every directory on the
// way to it, the ways of symbolic links included, belong to one of them and can be written by nobody else. A directory on the way may be
// writable by all if it has the sticky bit, as /tmp: what is in it can be replaced only by its owner. So may one be whose group has no member but
// the user, as for Debian's and Red Hat's OpenSSH: a umask of 002 is common there. What lies above the home directory is not looked at, as by
// OpenSSH: who can replace that one needs no rayctl.
//
// It goes downwards, so that nobody can change what it has looked at already. An error is an *Error, or of the file system.
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

// MakeDir makes a directory of this user's own, with its parents, mode 0700, and refuses one that is there but that Check does not trust.
func MakeDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return Check(path)
}

// CheckDir is MakeDir for those who only read: a directory that is not there is trusted.
func CheckDir(path string) error {
	if err := Check(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// walk is the way to a path.
type walk struct {
	me    *self
	homes []string
	at    string   // has no links
	rest  []string // names that are still to be looked up from there
	links int
}

// maxLinks is Linux' limit of symbolic links on one way (path_resolution(7)).
const maxLinks = 40

// begin starts at the root, or at the home directory if the path is below it, with what was still to be looked up behind the path.
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

// step looks at the next name.
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

// look holds one file or directory to its owner and its mode.
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

// parts are the names of a path, with its .., which behind a link is not the name before it.
func parts(path string) []string {
	var names []string
	for name := range strings.SplitSeq(path, "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// homes are the names of the home directory: as it is given, and at last without links.
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

// Explain is a sentence's part for an error of Check: what is wrong, and what to do if the directory is the user's own.
func Explain(err error) (reason, fix string) {
	var e *Error
	if !errors.As(err, &e) {
		return err.Error(), ""
	}
	if strings.HasPrefix(e.Reason, "can be written") {
		fix = "`" + shellescape.QuoteCommand([]string{"chmod", "go-w", e.Path}) + "` if it is yours alone"
	}
	return e.Error(), fix
}
