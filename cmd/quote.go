package cmd

import (
	"strings"
	"unicode/utf8"

	"al.essio.dev/pkg/shellescape"
)

// entrypoint joins arguments to the shell command that Ray's job API wants, so that sh splits it into the same arguments; none give "".
func entrypoint(args []string) (string, error) {
	for i, arg := range args {
		if strings.ContainsRune(arg, 0) || !utf8.ValidString(arg) {
			return "", usageError("put the bytes into a file of the working directory", "argument %d of the command is not text in UTF-8, which is all that Ray's job API carries", i+1)
		}
	}
	return shellescape.QuoteCommand(args), nil
}
