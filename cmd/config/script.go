package config

import (
	"path/filepath"
	"regexp"
	"slices"
)

// interpreter matches the first line of a script.
var interpreter = regexp.MustCompile(`^#!\s*(\S+)(?:[ \t]+(?:-\S+[ \t]+)*(\S+))?`)

// Interpreter is the name of the program that the first line of a script names; "" if it names none.
func Interpreter(data []byte) string {
	m := interpreter.FindSubmatch(data)
	if m == nil {
		return ""
	}
	if name := filepath.Base(string(m[1])); name != "env" {
		return name
	}
	return filepath.Base(string(m[2]))
}

// IsShell reports whether a program is a shell.
func IsShell(program string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "ksh", "zsh"}, program)
}
