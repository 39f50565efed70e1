package clientfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/rayctl/rayctl/launcher/spec"
)

// UvLock and pyproject are the names of the files of a project that are no requirements files.
const (
	UvLock    = "uv.lock"
	pyproject = "pyproject.toml"
)

var (
	includes     = regexp.MustCompile(`^\s*(?:-r|--requirement\b)\s*=?\s*(.*?)\s*$`)
	comment      = regexp.MustCompile(`(^|\s)#.*$`)
	namesFile    = regexp.MustCompile(`^[^\s=<>!~;@\[]+\.(txt|in|toml)$`)
	withPassword = regexp.MustCompile(`://[^/@\s]*:[^/@\s]*@`)
	absolutePath = regexp.MustCompile(`^\s*(?:-\S+[\s=]+)?["']?/`)
)

// Environment replaces, in requirements of an environment of this machine, the files by their lines: requirements files with those that they include, and the
// dependencies of a pyproject.toml. A uv.lock stays, with a checksum of its content behind it. Each line is whole, without comments; local paths are absolute; a
// line of a file has the file and the number of the line behind it (Line.Origin). The error is an *Error with key, file and line.
func Environment(key string, in *spec.Requirements) error {
	r := environmentReader{requirementsReader{key: key, nodes: Nodes{Shared: true}, base: in.Dir}}
	if r.base == "" {
		r.base = "."
	}
	var lines []string
	if in.File != "" {
		var err error
		if lines, err = r.file(in.File); err != nil {
			return err
		}
	}
	for _, item := range in.Packages {
		if namesFile.MatchString(item) || filepath.Base(item) == UvLock {
			item = "-r " + item
		}
		below, err := r.line(item, "", 0)
		if err != nil {
			return err
		}
		lines = append(lines, below...)
	}
	*in = spec.Requirements{Packages: lines, Dir: in.Dir}
	return nil
}

// Installed are the lines of a job's requirements for an environment of this machine; nil if they name files or what a node has, so that they mean something else
// there than to Ray, or cannot be read, which ReadJob explains. Of files that Ray does not read, this is the error.
func Installed(key string, in spec.Requirements) ([]string, error) {
	onlyHere := isProject(in.File)
	switch err := Environment(key, &in); {
	case err != nil && onlyHere:
		return nil, err
	case err != nil || slices.ContainsFunc(in.Packages, needsNode):
		return nil, nil
	}
	return in.Packages, nil
}

// isProject reports whether a file is a pyproject.toml or a uv.lock, which Ray does not read.
func isProject(file string) bool {
	return filepath.Base(file) == UvLock || filepath.Ext(file) == ".toml"
}

// needsNode reports whether a line of Environment names a file, other than a constraint or a lock, or a variable.
func needsNode(line string) bool {
	constrains := strings.HasPrefix(line, "-c") || strings.HasPrefix(line, "--constraint") || strings.HasPrefix(line, "-r")
	return absolutePath.MatchString(line) && !constrains || strings.Contains(line, "file:") || strings.Contains(line, "$")
}

// environmentReader reads what an environment of this machine has.
type environmentReader struct{ requirementsReader }

// file returns the lines of one file.
func (r *environmentReader) file(path string) ([]string, error) {
	whence := fromFile + namesAreLists
	if len(r.open) > 0 {
		whence = "-r in " + r.open[len(r.open)-1] + " is relative to that file's directory"
	}
	text, err := readText(r.key, "the requirements file", path, whence)
	if err != nil {
		return nil, err
	}
	if slices.Contains(r.open, path) {
		return nil, &spec.Error{Path: r.key, Msg: fmt.Sprintf("%s includes %s, which includes it", r.open[len(r.open)-1], path), Hint: "remove one of the two lines"}
	}
	r.open = append(r.open, path)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	switch {
	case filepath.Base(path) == UvLock:
		return r.uvLock(path, text)
	case filepath.Ext(path) == ".toml":
		return r.project(path, text)
	}
	var out []string
	for _, l := range logical(text) {
		below, err := r.line(l.text, path, l.number)
		if err != nil {
			return nil, err
		}
		out = append(out, below...)
	}
	return out, nil
}

// numbered is a line with its number.
type numbered struct {
	text   string
	number int
}

// logical are the lines of a requirements file without comments, continued ones joined.
func logical(text string) (out []numbered) {
	var l numbered
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(text, "\ufeff"))
	for i, line := range strings.Split(text, "\n") {
		if l.text == "" {
			l.number = i + 1
		}
		line = comment.ReplaceAllString(line, "")
		more, continued := strings.CutSuffix(line, `\`)
		l.text += more
		if continued {
			continue
		}
		if l.text = strings.TrimSpace(l.text); l.text != "" {
			out = append(out, l)
		}
		l = numbered{}
	}
	if l.text = strings.TrimSpace(l.text); l.text != "" {
		out = append(out, l)
	}
	return out
}

// line returns the lines for one of the file in; in is "" for one of a list.
func (r *environmentReader) line(text, in string, number int) ([]string, error) {
	if err := r.noPassword(text, in, number); err != nil {
		return nil, err
	}
	if m := includes.FindStringSubmatch(text); m != nil {
		name, dir := strings.Trim(m[1], `"'`), r.base
		if in != "" {
			dir = filepath.Dir(in)
		}
		if name == "" {
			return nil, r.fail(in, number, "write the file behind it, as in -r requirements.txt", "%q names no file", text)
		}
		return r.file(spec.OnClient(name, dir))
	}
	if cause, hint := wrongLine(text); cause != "" {
		return nil, r.fail(in, number, hint, "%s", cause)
	}
	whole, err := r.here([]string{text}, in)
	if err != nil {
		return nil, err
	}
	if in != "" {
		whole[0] += r.origin(in, number)
	}
	return whole, nil
}

// origin is what becomes Line.Origin.
func (r *environmentReader) origin(in string, number int) string {
	return fmt.Sprintf("  # %s:%d", r.short(in), number)
}

// short is a file as its reader knows it: relative to the directory of the outermost file.
func (r *environmentReader) short(in string) string {
	if len(r.open) > 0 {
		if relative, err := filepath.Rel(filepath.Dir(r.open[0]), in); err == nil {
			return spec.Printable(relative)
		}
	}
	return spec.Printable(in)
}

func (r *environmentReader) fail(in string, number int, hint, format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	if in != "" {
		msg = fmt.Sprintf("%s:%d: ", spec.Printable(in), number) + msg
	}
	return &spec.Error{Path: r.key, Msg: msg, Hint: hint}
}

// Of a line with a password.
const (
	Password     = "a password stands in an address, which the cluster's record and the installer's command line show to others"
	PasswordHint = "write the address without it, and the password into ~/.netrc"
)

// HasPassword reports whether a text has an address with a user and a password.
func HasPassword(text string) bool { return withPassword.MatchString(text) }

func (r *environmentReader) noPassword(text, in string, number int) error {
	if !HasPassword(text) {
		return nil
	}
	return r.fail(in, number, PasswordHint, Password)
}

// uvLock is a line with the file and its checksum: uv turns it into requirements when it makes the environment.
func (r *environmentReader) uvLock(path, text string) ([]string, error) {
	if err := r.noPassword(text, path, 1); err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the current directory: %w", err)
	}
	if !exists(filepath.Join(filepath.Dir(absolute), pyproject)) {
		return nil, r.fail(path, 1, "give the one beside the project's pyproject.toml", "no pyproject.toml lies beside it, which uv needs")
	}
	sum := sha256.Sum256([]byte(text))
	return []string{"-r " + absolute + "  # " + hex.EncodeToString(sum[:])[:12]}, nil
}

// project are the dependencies of a pyproject.toml, without the project itself.
func (r *environmentReader) project(path, text string) ([]string, error) {
	var file struct {
		Project *struct {
			Dependencies []string
			Dynamic      []string
		}
		Tool struct {
			Uv struct{ Sources map[string]any }
		}
	}
	if err := toml.Unmarshal([]byte(text), &file); err != nil {
		line := 1
		var where *toml.DecodeError
		if errors.As(err, &where) {
			line, _ = where.Position()
		}
		return nil, r.fail(path, line, "mend it", "it is no TOML: %v", err)
	}
	const instead = "give its uv.lock, which `uv lock` writes, or a requirements file"
	switch {
	case file.Project == nil:
		return nil, r.fail(path, 1, instead, "it has no [project] with dependencies")
	case slices.Contains(file.Project.Dynamic, "dependencies"):
		return nil, r.fail(path, lineOf(text, "dynamic"), "give a requirements file, or the project itself, as in [-e .]", "its dependencies are dynamic, so that they stand elsewhere")
	case len(file.Tool.Uv.Sources) > 0:
		return nil, r.fail(path, lineOf(text, "sources"), instead, "[tool.uv.sources] says where packages are, which only uv's lock has for all installers")
	}
	var out []string
	for _, dependency := range file.Project.Dependencies {
		lines, err := r.line(dependency, path, lineOf(text, `"`+dependency+`"`, "'"+dependency+"'"))
		if err != nil {
			return nil, err
		}
		out = append(out, lines...)
	}
	return out, nil
}

// lineOf is the number of the first line that has one of the texts; 1 if none has.
func lineOf(text string, parts ...string) int {
	for _, part := range parts {
		if before, _, found := strings.Cut(text, part); found {
			return 1 + strings.Count(before, "\n")
		}
	}
	return 1
}
