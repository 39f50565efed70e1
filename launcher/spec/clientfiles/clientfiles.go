// Package clientfiles reads the files of the client that a job's requirements and runtime environment name.
package clientfiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rayctl/rayctl/launcher/spec"
)

// ReadJob replaces the names of requirements files and conda environments by the files' contents, as Ray's SDK does before it submits a job, and paths of this
// machine in requirements by those that the nodes have. Paths in j.RuntimeEnv are relative to dir. The error is an *Error with key and file.
func ReadJob(j *spec.Job, dir string, n Nodes) error {
	n.WorkingDir = j.WorkingDir
	for _, f := range []struct {
		key string
		in  *spec.Requirements
	}{{"job.pip", &j.Pip}, {"job.uv", &j.Uv}} {
		r := requirementsReader{key: f.key, nodes: n, base: f.in.Dir}
		var lines []string
		if f.in.File != "" {
			var err error
			if lines, err = r.once(f.in.File); err != nil {
				return err
			}
		}
		if err := r.checkLines(strings.Join(f.in.Packages, "\n"), ""); err != nil {
			return err
		}
		listed, err := r.here(f.in.Packages, "")
		if err != nil {
			return err
		}
		*f.in = spec.Requirements{Packages: append(lines, listed...), Dir: f.in.Dir}
	}
	return ReadRuntimeEnv("job.runtimeEnv", dir, j.RuntimeEnv, n)
}

// ReadRuntimeEnv replaces file names in a runtime_env by the files' contents, and in its requirements paths of this machine by those that the nodes have. key
// is the runtime_env's own, for messages; relative names are relative to dir, "" is the current directory.
func ReadRuntimeEnv(key, dir string, env map[string]any, n Nodes) error {
	for _, f := range spec.ClientFiles(env) {
		file := spec.OnClient(f.File, dir)
		r := requirementsReader{key: spec.Join(key, f.Key), nodes: n, base: dir}
		read := r.lines
		if f.Key == "conda" {
			read = r.conda
		}
		value, err := read(file)
		if err != nil {
			return err
		}
		f.Set(value)
	}
	return EachList(env, func(name string, lines []string) ([]string, error) {
		r := requirementsReader{key: spec.Join(key, name), nodes: n, base: dir}
		if err := r.checkLines(strings.Join(lines, "\n"), ""); err != nil {
			return nil, err
		}
		return r.here(lines, "")
	})
}

// EachList changes the lists of requirements in a runtime_env.
func EachList(env map[string]any, change func(name string, lines []string) ([]string, error)) error {
	for _, name := range []string{"pip", "uv"} {
		in, key := env, name
		if rich, ok := env[name].(map[string]any); ok {
			in, key = rich, "packages"
		}
		lines, ok := texts(in[key])
		if !ok {
			continue
		}
		changed, err := change(name, lines)
		if err != nil {
			return err
		}
		if _, plain := in[key].([]string); plain {
			in[key] = changed
		} else {
			in[key] = anyOf(changed)
		}
	}
	return nil
}

// texts is a list of texts; Ray refuses others.
func texts(list any) ([]string, bool) {
	if lines, ok := list.([]string); ok {
		return lines, true
	}
	items, ok := list.([]any)
	lines := make([]string, len(items))
	for i := range items {
		if lines[i], ok = items[i].(string); !ok {
			return nil, false
		}
	}
	return lines, ok
}

// anyOf is a list as JSON has it.
func anyOf(lines []string) []any {
	out := make([]any, len(lines))
	for i, l := range lines {
		out[i] = l
	}
	return out
}

// lines is once with a list as JSON has it.
func (r *requirementsReader) lines(file string) (any, error) {
	lines, err := r.once(file)
	if err != nil {
		return nil, err
	}
	return anyOf(lines), nil
}

// once returns the lines of a requirements file as Ray's SDK passes them on: with comments and blank lines, each line once
// (_handle_local_deps_requirement_file and parse_and_validate_pip). A line that includes another file, which Ray leaves to the nodes, is replaced by
// that file's lines.
func (r *requirementsReader) once(file string) ([]string, error) {
	lines, err := r.file(file)
	if err != nil {
		return nil, err
	}
	seen, once := map[string]bool{}, lines[:0]
	for _, l := range lines {
		if !seen[l] {
			once = append(once, l)
		}
		seen[l] = true
	}
	return once, nil
}

// What to do about a file that does not exist.
const (
	fromFile      = "paths are relative to the cluster file, those of flags to where you are"
	namesAreLists = `; packages by name are a list, as in [numpy, "ray[tune]"]`
)

// requirementsReader reads a requirements file and the files it includes.
type requirementsReader struct {
	key   string
	nodes Nodes
	base  string   // local paths are relative to it
	open  []string // files being read, outermost first
}

func (r *requirementsReader) file(file string) ([]string, error) {
	whence := fromFile + namesAreLists
	if len(r.open) > 0 {
		whence = "-r in " + r.open[len(r.open)-1] + " is relative to that file's directory"
	}
	if isProject(file) {
		return nil, &spec.Error{Path: r.key, Msg: file + " is no requirements file, and only `run` on this machine reads it", Hint: "`uv export -o requirements.txt` writes one"}
	}
	text, err := readText(r.key, "the requirements file", file, whence)
	if err != nil {
		return nil, err
	}
	if err := r.checkLines(text, file); err != nil {
		return nil, err
	}
	r.open = append(r.open, file)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	return r.expand(strings.Split(stripped(text), "\n"), file)
}

// expand replaces lines that include another file. As with pip, the path is relative to the including file.
func (r *requirementsReader) expand(lines []string, in string) (out []string, err error) {
	for _, line := range lines {
		option, name := spec.IncludedFile(line)
		if name == "" || strings.HasPrefix(strings.TrimLeft(option, "-"), "c") {
			here, err := r.here([]string{line}, in)
			if err != nil {
				return nil, err
			}
			out = append(out, here...)
			continue
		}
		included := filepath.Join(filepath.Dir(in), name)
		if slices.Contains(r.open, included) {
			return nil, &spec.Error{Path: r.key, Msg: fmt.Sprintf("%s has the line %q, and that file includes it", in, line), Hint: "remove one of the two lines"}
		}
		below, err := r.file(included)
		if err != nil {
			return nil, err
		}
		out = append(out, below...)
	}
	return out, nil
}

// stripped returns text as Python's read_text().strip() does: every line end is \n, surrounding white space is gone.
func stripped(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f })
}

// conda is a conda environment's YAML file as a map. Requirements files in its pip section are replaced by their lines.
func (r *requirementsReader) conda(file string) (any, error) {
	const what = "the conda environment"
	key := r.key
	text, err := readText(key, what, file, fromFile)
	if err != nil {
		return nil, err
	}
	value, err := spec.PlainYAML(text)
	if err != nil {
		where, cause := file, err.Error()
		if at, ok := errors.AsType[*spec.Error](err); ok {
			cause = at.Msg
			if at.Line > 0 {
				where = fmt.Sprintf("%s:%d", file, at.Line)
			}
		}
		return nil, &spec.Error{Path: key, Msg: fmt.Sprintf("%s %s cannot be read: %s", what, where, cause), Hint: "`conda env export` writes one"}
	}
	env, ok := value.(map[string]any)
	if !ok {
		return nil, &spec.Error{Path: key, Msg: fmt.Sprintf("%s %s is not a map of keys", what, file), Hint: "`conda env export` writes one"}
	}
	return env, r.expandConda(file, env)
}

func (r *requirementsReader) expandConda(file string, env map[string]any) error {
	r.open = []string{file}
	dependencies, _ := env["dependencies"].([]any)
	for _, d := range dependencies {
		section, _ := d.(map[string]any)
		list, ok := section["pip"].([]any)
		if !ok {
			continue
		}
		var out []any
		for _, item := range list {
			line, ok := item.(string)
			if !ok {
				out = append(out, item)
				continue
			}
			lines, err := r.expand([]string{line}, file)
			if err != nil {
				return err
			}
			for _, l := range lines {
				out = append(out, l)
			}
		}
		section["pip"] = out
	}
	return nil
}

// readText reads a text file of this machine. Like Ray's SDK it accepts only a regular file: opening a named pipe could block forever.
// whence states what relative names are relative to.
func readText(key, what, file, whence string) (string, error) {
	fail := func(hint, format string, args ...any) (string, error) {
		return "", &spec.Error{Path: key, Msg: what + " " + spec.Printable(file) + " " + fmt.Sprintf(format, args...), Hint: hint}
	}
	if spec.IsURI(file) {
		return fail("download it first, or write a list of requirements", "is a URL, not a file of this machine")
	}
	st, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail(whence, "does not exist")
	case err == nil && !st.Mode().IsRegular():
		return fail("give the file itself", "is not a regular file")
	}
	data, err := readAtMost(file, spec.MaxFileBytes+1)
	if err != nil {
		return fail("make it readable for you", "cannot be read: %v", reason(err))
	}
	if len(data) > spec.MaxFileBytes {
		return fail("give the right one", "is larger than 4 MiB, which no such file is")
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return fail("save it as UTF-8", "is not a text file in UTF-8")
	}
	return string(data), nil
}

func readAtMost(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// reason is the system's error without the path, which the message already has.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
