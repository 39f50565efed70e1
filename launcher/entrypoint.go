package launcher

import (
	"regexp"

	"al.essio.dev/pkg/shellescape"
)

// InDirectory is an entrypoint that begins in a directory of the nodes. The keeper makes the same one (driver/rayjob.py). The change of the directory is
// on a line of its own: in `cd D && a & b` the shell runs b elsewhere.
func InDirectory(dir, command string) string {
	if dir == "" {
		return command
	}
	return "cd -- " + shellescape.Quote(dir) + " || exit 1\n" + command
}

// entering is that line. A quoted directory may have line ends: the line ends behind its last quote.
var entering = regexp.MustCompile(`^cd -- (?:[^\s'"]|'[^']*'|"'")+ \|\| exit 1\n`)

// UserCommand is the user's part of an entrypoint, for people.
func UserCommand(entrypoint string) string {
	return entrypoint[len(entering.FindString(entrypoint)):]
}
