package config

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher/spec"
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

// scriptLine matches lines that only a script that starts Ray has.
var scriptLine = regexp.MustCompile(`(?m)^(#SBATCH\s|\s*(srun\s.*)?ray\s+(start|symmetric-run|job\s+submit)\b)`)

// rayCommand matches commands of Ray that start a cluster or submit a job.
var rayCommand = regexp.MustCompile(`\bray["']?\s+(start|job\s+submit|symmetric-run)\b`)

// StartsRay reports whether a script has one of these commands outside of comments.
func StartsRay(script string) bool {
	for line := range strings.Lines(strings.ReplaceAll(script, "\\\n", " ")) {
		if rayCommand.MatchString(line) && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			return true
		}
	}
	return false
}

// sbatchLine matches an option of sbatch in a script.
var sbatchLine = regexp.MustCompile(`(?m)^#SBATCH\s`)

// shellExtensions are those of shell scripts.
var shellExtensions = []string{".sh", ".sbatch", ".slurm"}

// Shell is the shell that a file is a script of, by its first line or its name; "": it is none.
func Shell(name string, data []byte) string {
	switch runs := Interpreter(data); {
	case IsShell(runs):
		return runs
	case runs != "":
		return ""
	case sbatchLine.Match(data), slices.Contains(shellExtensions[1:], filepath.Ext(name)):
		return "bash"
	case filepath.Ext(name) == shellExtensions[0]:
		return "sh"
	}
	return ""
}

// BatchScript reports what a shell script of another world has: options of sbatch, and commands that start Ray or a job on it.
func BatchScript(name string, data []byte) (sbatch, startsRay bool) {
	if Shell(name, data) == "" {
		return false, false
	}
	return sbatchLine.Match(data), StartsRay(string(data))
}

// program returns the error for a file that was given as a cluster file and is a Python program or a shell script; nil if it is neither. refused is the error of
// reading it as a cluster file, nil if that succeeded.
func program(name string, data []byte, refused error) error {
	runs, quoted := Interpreter(data), shellescape.Quote(name)
	isPython := strings.HasPrefix(runs, "python") || refused != nil && runs == "" && filepath.Ext(name) == ".py"
	isShell := IsShell(runs) || refused != nil && runs == "" && (scriptLine.Match(data) || slices.Contains(shellExtensions, filepath.Ext(name)))
	switch {
	case isPython:
		return &spec.Error{File: name, Msg: "is a Python program, not a cluster file", Hint: "`rayctl run -- python " + quoted + "` runs it as a job on a Ray cluster"}
	case isShell && StartsRay(string(data)):
		return &spec.Error{File: name, Msg: "is a shell script, not a cluster file", Hint: "`rayctl init --from " + quoted + "` writes the rayctl.yaml of a script that starts Ray"}
	case isShell:
		return &spec.Error{File: name, Msg: "is a shell script, not a cluster file, and does not start Ray",
			Hint: "`rayctl run -- bash " + quoted + "` runs it as a job on a Ray cluster, whose size rayctl.yaml or flags set (`rayctl help coming-from`)"}
	}
	return nil
}
