package cmd

import (
	"strings"
	"unicode/utf8"

	"al.essio.dev/pkg/shellescape"
)

// entrypoint joins arguments to the shell command for Ray's job API, which sh splits into the same arguments; without arguments it is "".
func entrypoint(args []string) (string, error) {
	for i, arg := range args {
		if strings.ContainsRune(arg, 0) || !utf8.ValidString(arg) {
			return "", usageError("put the bytes into a file of the working directory", "argument %d of the command is not text in UTF-8, which is all that Ray's job API carries", i+1)
		}
	}
	return shellescape.QuoteCommand(args), nil
}

// looksLikeShell reports one argument that was probably meant as a line of shell, as in `-- "cd x && python a.py"`. It still counts as
// the name of a program, because such a name may contain anything.
func looksLikeShell(args []string) bool {
	return len(args) == 1 && strings.ContainsAny(args[0], " \t\n;|&<>$*")
}

// hintShell hints at how to write a line of shell.
func (a *App) hintShell(command []string) {
	if looksLikeShell(command) {
		a.ui.warn("%s", "the command is one word, taken as the name of a program: for a line of shell write `-- sh -c "+shellescape.Quote(command[0])+"`")
	}
}
