package driverio

import (
	"regexp"
	"strings"
	"unicode/utf8"

	keeperzip "github.com/rayctl/rayctl/keeper"
)

// pipeLine begins the command line of a job whose output goes through a pipe (keeper/rayctl_keeper/driver/pipe.py, which makes the same for the job of a run).
const pipeLine = "eval \"$RAYCTL_PIPE\"\n"

// titleLongest is how many characters of the user's command title shows.
const titleLongest = 200

// titled is a title with the line that follows it.
var titled = regexp.MustCompile(`^# [^\n]*\n` + regexp.QuoteMeta(pipeLine))

// title is a comment of the shell with the first line of the user's command: Ray's dashboard shows the beginning of a job's command line as the job. It is empty
// where that line is.
func title(users string) string {
	first, _, _ := strings.Cut(strings.Trim(users, " \t\r\n"), "\n")
	if runes := []rune(first); len(runes) > titleLongest {
		first = string(runes[:titleLongest])
	}
	if first = strings.TrimRight(first, " \t\r\\"); first == "" {
		return ""
	}
	return "# " + first + "\n"
}

// withoutPipe is the command of a command line that Piped or the keeper made.
func withoutPipe(line string) string {
	if found := titled.FindString(line); found != "" {
		return line[len(found):]
	}
	return strings.TrimPrefix(line, pipeLine)
}

// pipeLongest is how many bytes of command one variable holds: Linux accepts 128 KiB in one.
const pipeLongest = 120 << 10

// meant: Ray expands variables in values, and one of its plugins puts them between apostrophes.
var meant = strings.NewReplacer("%", "%25", "$", "%24", "'", "%27")

// Literal is a text as the value of a variable of a runtime environment, in which Ray changes nothing; its reader undoes the encoding.
func Literal(text string) string { return meant.Replace(text) }

// Piped gives a job's command its output in a pipe, so that a driver that writes to /dev/stderr truncates nothing. It returns the command line for Ray, and
// the variables that the job's runtime environment must have for it; none where the command runs without.
func Piped(command string) (line string, variables map[string]string) {
	encoded := Literal(command)
	if command == "" || len(encoded) > pipeLongest || strings.ContainsRune(command, 0) || !utf8.ValidString(command) {
		return command, map[string]string{}
	}
	program := strings.ReplaceAll(keeperzip.Source("rayctl_keeper/driver/pump.py"), `"`, `\"`)
	return title(UserCommand(command)) + pipeLine + command, map[string]string{
		"RAYCTL_PIPE":    `command -v python3 >/dev/null 2>&1 && exec python3 -ISc "` + program + `"`,
		"RAYCTL_COMMAND": encoded,
	}
}
