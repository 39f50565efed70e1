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

// octal are the characters that not all shells leave alone in single quotes, as printf's %b takes them.
var octal = strings.NewReplacer("\\", `\0134`, "\n", `\0012`, "!", `\0041`, "'", `\0047`)
