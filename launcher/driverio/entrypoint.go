package driverio

import (
	"regexp"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// InDirectory is an entrypoint that begins in a directory of the nodes. The keeper makes the same one (driver/rayjob.py). The change of the directory is
// on a line of its own: in `cd D && a & b` the shell runs b elsewhere. optional: where the directory does not exist the job begins where Ray starts it, after a note.
func InDirectory(dir, command string, optional bool) string {
	switch {
	case dir == "":
		return command
	case optional:
		note := "rayctl: the directory " + dir + ", in which rayctl was called, does not exist here: the job starts in another one, unless job.cwd or job.workingDir names one"
		return "cd -- " + shellescape.Quote(dir) + " 2>/dev/null || echo " + shellescape.Quote(note) + "\n" + command
	}
	return "cd -- " + shellescape.Quote(dir) + " || exit 1\n" + command
}

// DirectoryVariable names the directory of a job, as Literal, to the programs that begin its tasks and actors (keeper/rayctl_keeper/rayhook/setup_worker.py).
const DirectoryVariable = "RAYCTL_CWD"

// entering is that line, with the directory. A quoted directory may have line ends: the line ends behind its last quote.
var entering = regexp.MustCompile(`^cd -- (` + quoted + `) (?:\|\| exit 1|2>/dev/null \|\| echo ` + quoted + `)\n`)

const quoted = `(?:[^\s'"]|'[^']*'|"'")+`

// Directory is the directory that InDirectory wrote into a command; "" if it wrote none.
func Directory(entrypoint string) string {
	found := entering.FindStringSubmatch(withoutHeading(entrypoint))
	if found == nil {
		return ""
	}
	parts := strings.Split(found[1], `'"'"'`) // as shellescape quotes a '
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(part, "'", "")
	}
	return strings.Join(parts, "'")
}

// heading is the first line of the driver of a job with job.prepare: what it prints separates their outputs in the log (driver/rayjob.py).
const heading = "echo '==> driver <=='\n"

// prepareHeading is that of job.prepare.
const prepareHeading = "echo '==> job.prepare <=='\n"

// UserCommand is the user's part of an entrypoint, for people.
func UserCommand(entrypoint string) string {
	entrypoint = withoutHeading(entrypoint)
	return strings.TrimPrefix(entrypoint[len(entering.FindString(entrypoint)):], ranksLine)
}

func withoutHeading(entrypoint string) string {
	return strings.TrimPrefix(strings.TrimPrefix(withoutPipe(entrypoint), heading), prepareHeading)
}
