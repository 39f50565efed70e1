package app

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient/pack"
)

// Sent is what a job's packages have in them.
type Sent struct {
	Files   int            `json:"files"`
	Bytes   int64          `json:"bytes"` // before compression
	LeftOut []pack.LeftOut `json:"leftOut,omitempty"`

	dirs []string // of this machine
}

// mostLeftOut is how many names a line has of what is left out.
const mostLeftOut = 4

func (s *Sent) String() string {
	text := fmt.Sprintf("%d files, %s", s.Files, terminal.Size(s.Bytes))
	if s.Files == 1 {
		text = "1 file, " + terminal.Size(s.Bytes)
	}
	for i, l := range s.LeftOut {
		switch i {
		case mostLeftOut:
			return text + fmt.Sprintf(" and %d more", len(s.LeftOut)-i) + s.way()
		case 0:
			text += "; left out by .gitignore: "
		default:
			text += ", "
		}
		text += leftOut(l)
	}
	return text + s.way()
}

// way is how to send the first of what is left out.
func (s *Sent) way() string {
	if len(s.LeftOut) == 0 || !plainPattern.MatchString(s.LeftOut[0].Name) {
		return ""
	}
	return "; `" + include(s.LeftOut[0].Name) + "` sends " + s.LeftOut[0].Name
}

// plainPattern matches names that a pattern of .gitignore and a sentence can have as they are.
var plainPattern = regexp.MustCompile(`^[\pL\pN*._+@=/ -]+$`)

// include is the flag that sends what .gitignore leaves out.
func include(name string) string {
	return "--excludes '!" + strings.TrimSuffix(name, "/") + "'"
}

// HintLeftOut says how to send a file that a failed job of this command did not find, if it is here and .gitignore left it out of what was sent. paths are those of
// its errors.
func (a *App) HintLeftOut(paths []string) {
	if a.sent == nil {
		return
	}
	for _, missing := range paths {
		if name, by := a.sent.lacks(missing); name != "" {
			a.UI.Note("%s is here, but .gitignore leaves %s out of what is sent: `%s` sends it", name, by, include(by))
			return
		}
	}
}

// copied matches the beginning of a path in Ray's copy of a working directory.
var copied = regexp.MustCompile(`^.*/_ray_pkg_[0-9a-f]+/`)

// lacks is the path of a file in a directory that was sent, and the pattern to include of what left it out; "" if it was not left out.
func (s *Sent) lacks(missing string) (name, by string) {
	name = path.Clean(copied.ReplaceAllString(missing, ""))
	if path.IsAbs(name) || strings.HasPrefix(name, "..") || !plainPattern.MatchString(name) {
		return "", ""
	}
	if !slices.ContainsFunc(s.dirs, func(dir string) bool { _, err := os.Lstat(filepath.Join(dir, name)); return err == nil }) {
		return "", ""
	}
	for _, l := range s.LeftOut {
		if by := l.Of(name); by != "" {
			return name, by
		}
	}
	return "", ""
}

// leftOut is "data/ (3.1 GB)" or "*.ckpt (2)".
func leftOut(l pack.LeftOut) string {
	var details []string
	if l.Count > 1 {
		details = append(details, strconv.Itoa(l.Count))
	}
	switch size := terminal.Size(l.Bytes); {
	case !strings.HasSuffix(l.Name, "/") || l.More && l.Bytes == 0: // a file, or nothing is known
	case l.More:
		details = append(details, "more than "+size)
	default:
		details = append(details, size)
	}
	if details == nil {
		return l.Name
	}
	return l.Name + " (" + strings.Join(details, ", ") + ")"
}
