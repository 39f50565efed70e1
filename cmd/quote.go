package cmd

import (
	"errors"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// quote makes one POSIX shell word of s. The library refuses what needs an escape sequence in its eyes (newlines, tabs, control
// characters); between single quotes POSIX takes every character as it is, so those words are quoted that way.
func quote(s string) (string, error) {
	q, err := syntax.Quote(s, syntax.LangPOSIX)
	if err == nil {
		return q, nil
	}
	if strings.ContainsRune(s, 0) {
		return "", err
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'", nil
}

var errNotText = errors.New("is not text in UTF-8, which is all that Ray's job API carries")

// entrypoint joins arguments to the shell command that Ray's job API wants, so that sh splits it into the same arguments.
func entrypoint(args []string) (string, error) {
	words := make([]string, len(args))
	for i, arg := range args {
		q, err := quote(arg)
		if err == nil && !utf8.ValidString(arg) {
			err = errNotText
		}
		if err != nil {
			return "", usageError("", "argument %d of the command cannot be passed on: it %v", i+1, err)
		}
		words[i] = q
	}
	return strings.Join(words, " "), nil
}
