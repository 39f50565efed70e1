package app

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Entrypoint joins arguments to the shell command for Ray's job API, which sh splits into the same arguments; without arguments it is "".
func Entrypoint(args []string) (string, error) {
	for i, arg := range args {
		if strings.ContainsRune(arg, 0) || !utf8.ValidString(arg) {
			return "", UsageError("put the bytes into a file of the working directory", "argument %d of the command is not UTF-8 text, and Ray's job API accepts only UTF-8 text", i+1)
		}
	}
	return shellescape.QuoteCommand(args), nil
}

// looksLikeShell reports one argument that was probably meant as a line of shell, as in `-- "cd x && python a.py"`. It still counts as
// the name of a program, because such a name may contain anything.
func looksLikeShell(args []string) bool {
	return len(args) == 1 && strings.ContainsAny(args[0], " \t\n;|&<>$*")
}

// splitLine are the words of a whole command line in one argument, as in 'python a.py --n 6'; nil: it is none, or one for a shell.
func splitLine(argument string) []string {
	fields := strings.Fields(argument)
	if len(fields) < 2 || strings.ContainsAny(argument, ";|&<>$*`\"'\\(){}[]~#?\n") || isFile(argument) || !isProgram(fields[0]) && !isFile(fields[0]) {
		return nil
	}
	return fields
}

// HintShell hints at how to write a line of shell.
func (a *App) HintShell(command []string) {
	if looksLikeShell(command) {
		a.UI.Warn("%s", "the command is one argument, so rayctl takes all of it as the name of a program: for a shell command write `-- sh -c "+shellescape.Quote(command[0])+"`")
	}
}

// CheckProgram refuses a script that was written as the program to run and is none, before a cluster is started for it. What is not on this machine, and
// what PATH has, may be there on the nodes.
func CheckProgram(command []string, job *spec.Job) error {
	if len(command) == 0 {
		return nil
	}
	program := command[0]
	if line := splitLine(program); line != nil {
		return UsageError("write `-- "+shellescape.QuoteCommand(append(line, command[1:]...))+"`", "%q is a whole command line, not a program", program)
	}
	file := program
	if dir := cmp.Or(job.WorkingDir, job.Cwd); dir != "" && !filepath.IsAbs(program) {
		file = filepath.Join(dir, program)
	}
	st, err := os.Stat(file)
	if err != nil || st.IsDir() {
		return nil //nolint:nilerr // it may be there on the nodes
	}
	interpreter := interpreterOf(file)
	switch {
	case strings.Contains(program, "/") && st.Mode().Perm()&0o111 != 0, !strings.Contains(program, "/") && isProgram(program):
		return nil
	case interpreter != "":
		return UsageError("write `-- "+shellescape.QuoteCommand(append([]string{interpreter}, command...))+"`", "%s is a script, not a program", program)
	case strings.Contains(program, "/"):
		return UsageError("`chmod +x "+shellescape.Quote(program)+"` makes it one", "%s is not executable", program)
	}
	return nil
}

// checkScript refuses a job whose script can only come from the packed working directory, or with here from this machine, and is not there. If the script may
// come from elsewhere, as from job.prepare or from a directory of the nodes, it notes that it is not here.
func (a *App) checkScript(j *spec.Job, here bool) error {
	script := scriptOf(j.Entrypoint)
	dir := cmp.Or(j.Cwd, j.WorkingDir)
	if st, err := os.Stat(dir); script == "" || err != nil || !st.IsDir() {
		return nil //nolint:nilerr // nothing is known of its files
	}
	if _, err := os.Stat(filepath.Join(dir, script)); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	hint := "write its path relative to that directory"
	if near := nearFile(dir, script); near != "" {
		hint = "did you mean " + near + "?"
	}
	switch {
	case j.Cwd == "" && j.Prepare == "":
		return launcher.Fail(runstate.CodeSpec, fs.ErrNotExist, hint, "there is no file %s in the working directory %s, in which the job begins", script, dir)
	case here:
		return launcher.Fail(runstate.CodeSpec, fs.ErrNotExist, hint, "there is no file %s in %s, in which the job begins", script, dir)
	}
	a.UI.Note("there is no file %s here in %s, in which the job begins", script, dir)
	return nil
}

// shellLetters are those by which a word of a command is not a file's name as it is written.
const shellLetters = "$*?~`'\"\\;|&<>(){}[]"

// scriptOf is the script that an interpreter runs by a command, as a path relative to where the job begins; "" if the command may mean anything else.
func scriptOf(command string) string {
	words := strings.Fields(command)
	if len(words) < 2 || !slices.Contains(interpreters, words[0]) {
		return ""
	}
	script := words[1]
	if words[1] == "-u" && len(words) > 2 {
		script = words[2]
	}
	if filepath.Ext(script) != ".py" || filepath.IsAbs(script) || strings.ContainsAny(script, shellLetters) {
		return ""
	}
	return script
}

// StartHere starts a job without a directory in the current one if its nodes share it, like sbatch. So `rayctl run -- python train.py` finds train.py. It need not be
// there on all nodes, but a container must be able to have it.
func StartHere(job *spec.Job, s *spec.ClusterSpec) error {
	if job.WorkingDir != "" || job.Cwd != "" || !spec.SharesFilesystem(s) {
		return nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return launcher.Fail(runstate.CodeConfig, err, "change to a directory that exists", "the current directory does not exist any more: %v", err)
	}
	job.Cwd, job.CwdOptional = dir, true
	whole := spec.Copy(s)
	whole.Job.Cwd = dir
	return spec.Validate(whole)
}
