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

// scriptLine matches lines that only scripts have which start Ray.
var scriptLine = regexp.MustCompile(`(?m)^(#SBATCH\s|\s*(srun\s.*)?ray\s+(start|symmetric-run|job\s+submit)\b)`)

// isScript reports whether a file is a script of a shell; refused is why it is no cluster file.
func isScript(data []byte, refused error) bool {
	return IsShell(Interpreter(data)) || refused != nil && scriptLine.Match(data)
}
