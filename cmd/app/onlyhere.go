package app

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// onlyHere reports whether a job can only have the files of this machine: its nodes are this machine, and nothing makes files before it begins.
func onlyHere(s *spec.ClusterSpec) bool {
	return s.Launcher == spec.Fallback() && s.Setup == "" && s.Job.Prepare == ""
}

// shellWords are the words of a shell that are no programs: its commands and its grammar, and what only some shells have.
var shellWords = strings.Fields(". : [ [[ { ( ! alias bg break builtin case cd command continue coproc declare disown echo enable eval exec exit export false fg for function " +
	"getopts hash if jobs kill let local logout mapfile popd printf pushd pwd read readonly return select set shift shopt source suspend test time times trap true type typeset " +
	"ulimit umask unalias unset until wait while")

// inEnvironment are programs of the environment that rayctl makes for Ray on this machine, which need not be in PATH here.
var inEnvironment = strings.Fields("ray serve tune python python3 pip pip3 pydoc wheel virtualenv activate jsonschema normalizer idna py-spy cffi-gen-src uvicorn fastapi watchfiles websockets dotenv numpy-config f2py")

// CheckCommand refuses a program of the command line that a job on this machine cannot have, before a cluster is started for it.
func CheckCommand(c *config.Loaded, command []string) error {
	if len(command) == 0 || !onlyHere(c.Spec) || c.HasPackages() || setsPath(c.Spec) {
		return nil
	}
	program := command[0]
	if strings.ContainsAny(program, "/=") || slices.Contains(shellWords, program) || slices.Contains(inEnvironment, program) || strings.HasPrefix(program, "python3.") || isProgram(program) {
		return nil
	}
	hint := "give its path, or install it"
	near := ""
	if len(program) > 2 { // shorter names are near to half of all programs
		near = cmp.Or(spec.Nearest(program, onNodes), spec.Nearest(program, programs()))
	}
	if near != "" {
		hint = "did you mean `-- " + shellescape.QuoteCommand(append([]string{near}, command[1:]...)) + "`?"
	}
	return launcher.Fail(runstate.CodeSpec, nil, hint, "there is no program %q in PATH on this machine", program)
}

// setsPath reports whether the file or the command line changes where programs are searched.
func setsPath(s *spec.ClusterSpec) bool {
	all := []map[string]string{s.Env, s.Job.Env, s.Head.Env}
	for _, w := range s.Workers {
		all = append(all, w.Env)
	}
	return slices.ContainsFunc(all, func(env map[string]string) bool { return env["PATH"] != "" })
}

// programs are the names of all files in PATH.
func programs() (names []string) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		files, _ := os.ReadDir(dir) // one that is not there has none
		for _, f := range files {
			names = append(names, f.Name())
		}
	}
	return names
}

// nearFile is the script of a directory that a mistyped one was meant to be; "": there is none.
func nearFile(dir, script string) string {
	files, _ := filepath.Glob(filepath.Join(dir, filepath.Dir(script), "*.py"))
	for i, f := range files {
		files[i] = filepath.Base(f)
	}
	if near := spec.Nearest(filepath.Base(script), files); near != "" {
		return filepath.Join(filepath.Dir(script), near)
	}
	return ""
}
