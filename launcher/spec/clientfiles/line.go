package clientfiles

import (
	"path/filepath"
	"regexp"
	"strings"
)

// Line is a line of Environment, taken apart.
type Line struct {
	// Text is the line without its origin, or the checksum of a uv.lock.
	Text string
	// Origin is the file and the line, as requirements.txt:3, from which Environment has it; "" if it stood in a list.
	Origin string
	// Name is the package that the line begins with; "": none.
	Name string
	// File is the absolute path of this machine that the line names; "": none.
	File string
	// Lock: File is a uv.lock. Editable: File is a project whose code is used where it is.
	Lock, Editable bool
}

var (
	lockSum    = regexp.MustCompile(`  # [0-9a-f]{12}$`)
	originMark = regexp.MustCompile(`  # (\S.*:[0-9]+)$`)
	nameAhead  = regexp.MustCompile(`^\s*([A-Za-z0-9][A-Za-z0-9._-]*)`)
	// fileNamed matches an option that takes a path, or a name with file://, ahead of an absolute path, which may be quoted.
	fileNamed = regexp.MustCompile(`^\s*(?:(--editable|--constraint|--requirement|--find-links|-e|-c|-r|-f)[\s=]*|[A-Za-z0-9._-]+(?:\[[^\]]*\])?\s*@\s*file://)?(?:"(/[^"]+)"|'(/[^']+)'|(/[^\s;"'\[]+))`)
)

// ParseLine takes a line of Environment apart.
func ParseLine(line string) Line {
	l := Line{Text: lockSum.ReplaceAllString(originMark.ReplaceAllString(line, ""), "")}
	if m := originMark.FindStringSubmatch(line); m != nil {
		l.Origin = m[1]
	}
	if m := nameAhead.FindStringSubmatch(l.Text); m != nil {
		l.Name = m[1]
	}
	if path, included := strings.CutPrefix(l.Text, "-r "); included && filepath.Base(path) == UvLock {
		l.File, l.Lock = path, true
	} else if m := fileNamed.FindStringSubmatch(l.Text); m != nil {
		l.File, l.Editable = m[2]+m[3]+m[4], m[1] == "-e" || m[1] == "--editable" // one of the three
	}
	return l
}
