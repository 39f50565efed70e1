package remote

import (
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// loginShellCommand is a command line that every login shell understands as the same arguments: sh, bash and zsh, but also tcsh, which takes no line
// breaks in quotes and replaces ! by its history even there, and fish, in whose quotes a backslash is special. A command with one of these goes as an
// argument of sh's printf in which they, and quotes, are octal numbers.
func loginShellCommand(argv []string) string {
	line := shellescape.QuoteCommand(argv)
	if !strings.ContainsAny(line, "\n!\\") {
		return line
	}
	return `sh -c 'eval "$(printf %b "$1")"' sh '` + octal.Replace(line) + `'`
}

// loginVariables are those that a site's startup files of login shells may set so that Slurm's commands, and modules, are found.
const loginVariables = "PATH LD_LIBRARY_PATH MODULESHOME MODULEPATH LMOD_CMD LMOD_DIR BASH_ENV " + finders

// loginPath is a program of sh. If Slurm's commands are not in PATH, it takes loginVariables from a login shell, because ssh runs commands in a shell that
// is no login shell. With -l every shell is a login shell, and it reads commands from its stdin.
const loginPath = `command -v sbatch >/dev/null 2>&1 || { e=$(echo env | "${SHELL:-sh}" -l 2>/dev/null); for v in ` + loginVariables +
	`; do x=$(echo "$e" | sed -n "s/^$v=//p" | tail -n 1); [ -z "$x" ] || export "$v=$x"; done; }; exec "$@"`

// withLoginPath is the command line of a command that runs with the PATH of a login shell.
func withLoginPath(argv []string) []string {
	return append([]string{"sh", "-c", loginPath, "sh"}, argv...)
}

// octal maps the characters that some shells change even in single quotes to the octal numbers that printf's %b understands.
var octal = strings.NewReplacer("\\", `\0134`, "\n", `\0012`, "!", `\0041`, "'", `\0047`)
