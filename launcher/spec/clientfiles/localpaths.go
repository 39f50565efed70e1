package clientfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
)

// WorkingDir stands for the directory in which a node has the job's working directory while it installs packages. Ray sets it from 2.10 on; pip and uv replace
// it in requirements.
const WorkingDir = "${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}"

// Nodes is what nodes have of this machine's files.
type Nodes struct {
	// WorkingDir is the directory that is sent to them; empty: none.
	WorkingDir string
	// Shared means that they have the directories of this machine.
	Shared bool
	// OldRay means that their Ray is older than 2.10, which does not set the variable of WorkingDir.
	OldRay bool
}

var (
	// pathOption matches the options of requirements files that take a path. -r is replaced by the lines of its file.
	pathOption = regexp.MustCompile(`^\s*(--editable|--find-links|--constraint|-e|-f|-c)(?:\s*=\s*|\s+|\b|$)(.*)$`)
	// pathAndTail splits what follows into a path, and extras, marker, comment, options or the end of a continued line.
	pathAndTail = regexp.MustCompile(`^\s*(.*?)((?:\[[^\[\]]*\])?\s*(?:;.*|\s#.*|\s--.*|\\)?)$`)
	archive     = regexp.MustCompile(`(?i)\.(whl|zip|tgz|tar\.(gz|bz2|xz))$`)
	sentPath    = regexp.MustCompile(regexp.QuoteMeta(WorkingDir) + `/?([^"\[;]*)`)
)

// here replaces, in lines of requirements, paths of files of this machine by those that the nodes have: below the working directory that is sent, or the same path
// where they have this machine's directories. As with pip, paths are relative to where one works, and those of -c to the file in, which may be "".
func (r *requirementsReader) here(lines []string, in string) (out []string, err error) {
	for _, line := range lines {
		changed, err := withPath(line, func(option, path string) (string, error) { return r.onNodes(line, r.find(option, path, in), in) })
		if err != nil {
			return nil, err
		}
		out = append(out, changed)
	}
	return out, nil
}

// Rebase makes a local path in a line of requirements, which is relative to from, relative to dir.
func Rebase(line, from, dir string) string {
	out, err := withPath(line, func(_, path string) (string, error) {
		relative, err := filepath.Rel(dir, filepath.Join(from, path))
		if err != nil {
			return "", err
		}
		return "." + string(filepath.Separator) + relative, nil
	})
	if err != nil { // one of them is no absolute path
		return line
	}
	return out
}

// withPath changes the local path in a line of requirements, if it has one.
func withPath(line string, change func(option, path string) (string, error)) (string, error) {
	option, rest := "", line
	if m := pathOption.FindStringSubmatch(line); m != nil {
		option, rest = m[1], m[2]
	}
	m := pathAndTail.FindStringSubmatch(rest)
	if m == nil || !isLocal(option, strings.Trim(m[1], `"'`)) {
		return line, nil
	}
	path, err := change(option, strings.Trim(m[1], `"'`))
	if err != nil {
		return "", err
	}
	if option != "" && strings.ContainsAny(path, " \t") {
		path = `"` + path + `"` // pip splits the line as a shell does
	}
	return strings.TrimLeft(option+" "+path+m[2], " "), nil
}

// isLocal reports whether the argument of an option, or of none, is a path relative to a directory of this machine. Absolute ones are the nodes'.
func isLocal(option, path string) bool {
	if path == "" || path[0] == '-' || path[0] == '#' || path[0] == '~' || filepath.IsAbs(path) || spec.IsURI(path) || strings.Contains(path, "$") || strings.HasPrefix(path, "file:") {
		return false
	}
	named := strings.Contains(path, "@") && path[0] != '.' // name @ URL, git@host:repository
	return !named && (option != "" || path[0] == '.' || strings.Contains(path, "/") || archive.MatchString(path))
}

// find returns the absolute path of a file: where one works, or else beside the requirements file.
func (r *requirementsReader) find(option, path, in string) string {
	dirs := []string{r.base}
	if in != "" {
		dirs = append(dirs, filepath.Dir(in))
		if strings.HasPrefix(strings.TrimLeft(option, "-"), "c") {
			dirs[0], dirs[1] = dirs[1], dirs[0]
		}
	}
	for _, dir := range dirs {
		if found := spec.OnClient(path, dir); exists(found) {
			return found
		}
	}
	return spec.OnClient(path, dirs[0])
}

// onNodes is the path that the nodes have of a file of this machine.
func (r *requirementsReader) onNodes(line, path, in string) (string, error) {
	refuse := func(hint, format string, args ...any) (string, error) {
		from := ""
		if in != "" {
			from = " of " + spec.Printable(in)
		}
		return "", &spec.Error{Path: r.key, Msg: fmt.Sprintf("the line %q%s needs %s, ", strings.TrimSpace(line), from, spec.Printable(path)) + fmt.Sprintf(format, args...), Hint: hint}
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find the current directory: %w", err)
	}
	sent, isSent := below(r.nodes.WorkingDir, absolute)
	switch {
	case !exists(absolute):
		return refuse("paths in requirements are relative to the cluster file, those of flags to where you are", "which does not exist")
	case isSent && !r.nodes.OldRay:
		return filepath.Join(WorkingDir, sent), nil
	case r.nodes.Shared:
		return absolute, nil
	case isSent:
		return refuse("set ray.version to 2.10 or later", "and this Ray cannot install from the working directory")
	case r.nodes.WorkingDir == "":
		return refuse("send a directory that has it (job.workingDir, --working-dir .), or write the path that it has on the nodes from /", "and no directory is sent to the nodes")
	}
	return refuse("choose a job.workingDir that has it, or write the path that it has on the nodes from /", "which is not in the working directory %s", spec.Printable(r.nodes.WorkingDir))
}

// below returns the path of a file relative to a directory that it is in, also by links.
func below(dir, file string) (relative string, ok bool) {
	if st, err := os.Stat(dir); dir == "" || err != nil || !st.IsDir() { // a package, or a URI
		return "", false
	}
	if absolute, err := filepath.Abs(dir); err == nil {
		if relative, err = filepath.Rel(absolute, file); err == nil && filepath.IsLocal(relative) {
			return relative, true
		}
	}
	realDir, err := filepath.EvalSymlinks(dir)
	realFile, fileErr := filepath.EvalSymlinks(file)
	if err != nil || fileErr != nil {
		return "", false
	}
	relative, err = filepath.Rel(realDir, realFile)
	return relative, err == nil && filepath.IsLocal(relative)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Sent is the path in the working directory that a line of requirements needs there, with slashes; "." is the directory itself.
func Sent(line string) (path string, ok bool) {
	m := sentPath.FindStringSubmatch(line)
	if m == nil || strings.HasPrefix(strings.TrimSpace(line), "#") {
		return "", false
	}
	path, _, _ = strings.Cut(strings.TrimRight(m[1], " \t\\"), " --")
	path, _, _ = strings.Cut(path, " #")
	return filepath.ToSlash(filepath.Clean(path)), true
}
