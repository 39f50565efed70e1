// Package workloads holds what `rayctl init` writes. A template is a folder with a manifest, template.yaml, and the files that it writes beside a cluster: a cluster
// file and a small program that run as they are, or what a CI system needs to run them. A team's own templates are folders of the same form.
package workloads

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// embedded has a folder for each template.
//
//go:embed all:*
var embedded embed.FS

// Limits of templates, so that a wrong folder is not read whole.
const (
	maxFile  = 1 << 20
	maxFiles = 100
)

// Template is a manifest and the folder with it.
type Template struct {
	Manifest
	folder fs.FS
}

// File is one file of a template. Its name may have folders.
type File struct {
	Name    string
	Content []byte
}

// Builtin are rayctl's own templates, by the groups of their list.
func Builtin() ([]*Template, error) {
	all, err := within(embedded, ".")
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b *Template) int {
		return cmp.Or(cmp.Compare(slices.Index(groups, a.Group), slices.Index(groups, b.Group)), cmp.Compare(rank(a.Name), rank(b.Name)))
	})
	return all, nil
}

// Named is the template with a name, or which people call so; nil if there is none.
func Named(all []*Template, name string) *Template {
	for _, t := range all {
		if t.Name == name {
			return t
		}
	}
	for _, t := range all {
		if slices.Contains(t.Aliases, strings.ToLower(name)) {
			return t
		}
	}
	return nil
}

// rank puts basic, the default, before the others, which are sorted by name.
func rank(name string) int {
	if name == "basic" {
		return 0
	}
	return 1
}

// Open are the templates of a team: the one of a folder with a manifest, or those of the folders in it. The files are read until close is called.
func Open(dir string) (all []*Template, closed func(), err error) {
	root, err := os.OpenRoot(dir) // refuses links that lead out of it
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		if IsAddress(dir) {
			return nil, nil, &Error{File: login.ReplaceAllString(dir, "$1"), Msg: "it is the address of a repository, and init reads directories", Hint: "clone it and name its directory"}
		}
		return nil, nil, &Error{File: dir, Msg: "the folder cannot be read: " + err.Error(), Hint: "name a folder with a " + ManifestName}
	}
	all, err = at(root.FS(), dir)
	if err != nil {
		return nil, nil, errors.Join(err, root.Close())
	}
	return all, func() { _ = root.Close() }, nil
}

// address is how git names repositories of other hosts, and login what may be in it for the host alone.
var (
	address = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*://|[^/@:]+@[^/:]+:)`)
	login   = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*://)[^/@]*@`)
)

// IsAddress reports whether a name is the address of a repository instead of a directory.
func IsAddress(name string) bool { return address.MatchString(name) }

func at(folder fs.FS, dir string) ([]*Template, error) {
	if _, err := fs.Lstat(folder, ManifestName); err == nil {
		name := filepath.Base(dir)
		if absolute, err := filepath.Abs(dir); err == nil {
			name = filepath.Base(absolute)
		}
		one, err := readTemplate(folder, name, filepath.Join(dir, ManifestName))
		return []*Template{one}, err
	}
	all, err := within(folder, dir)
	if err == nil && len(all) == 0 {
		err = &Error{File: dir, Msg: "there is no " + ManifestName + " in it or in a folder of it", Hint: formatHint}
	}
	return all, err
}

// within are the templates of the folders that have a manifest.
func within(folder fs.FS, dir string) ([]*Template, error) {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, &Error{File: dir, Msg: "the folder cannot be read: " + err.Error(), Hint: "make it readable"}
	}
	var all []*Template
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		below, err := fs.Sub(folder, e.Name())
		if err != nil {
			return nil, err
		}
		if _, err := fs.Lstat(below, ManifestName); err != nil {
			continue
		}
		one, err := readTemplate(below, e.Name(), filepath.Join(dir, e.Name(), ManifestName))
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// readTemplate is the template of a folder. file is the manifest's path for messages.
func readTemplate(folder fs.FS, name, file string) (*Template, error) {
	data, err := readFile(folder, ManifestName, file)
	if err != nil {
		return nil, err
	}
	m, err := readManifest(name, file, data)
	if err != nil {
		return nil, err
	}
	return &Template{*m, folder}, nil
}

// readFile reads a file that is not too large. file is its path for messages.
func readFile(folder fs.FS, name, file string) ([]byte, error) {
	fail := func(msg, hint string) ([]byte, error) { return nil, &Error{File: file, Msg: msg, Hint: hint} }
	info, err := fs.Stat(folder, name) // before it is opened: a pipe would wait for a writer
	switch {
	case err != nil:
		return fail("it cannot be read, or it is a link that leads out of the template's folder", "copy the file into the folder")
	case !info.Mode().IsRegular():
		return fail("it is not a regular file", "remove it from the template's folder")
	}
	f, err := folder.Open(name)
	if err != nil {
		return fail("it cannot be read", "make it readable")
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return fail("it cannot be read: "+err.Error(), "make it readable")
	case len(data) > maxFile:
		return fail("it is larger than 1 MiB", "a template has small files; data belongs where the job reads it")
	}
	return data, nil
}

// sources are the files beside the manifest and in folders, without Git's.
func (t *Template) sources() ([]File, error) {
	var out []File
	err := fs.WalkDir(t.folder, ".", func(name string, d fs.DirEntry, err error) error {
		file := t.Name + "/" + name
		switch {
		case err != nil:
			return &Error{File: file, Msg: "it cannot be read: " + err.Error(), Hint: "make it readable"}
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir() || name == ManifestName || d.Name() == ".git": // a file in a worktree
			return nil
		case strings.ContainsFunc(name, unicode.IsControl):
			return &Error{File: fmt.Sprintf("%q", file), Msg: "its name has control characters", Hint: "rename it"}
		case len(out) == maxFiles:
			return &Error{File: t.Name, Msg: fmt.Sprintf("the template has more than %d files", maxFiles), Hint: "a template is a folder of its own with few files"}
		}
		data, err := readFile(t.folder, name, file)
		if err != nil {
			return err
		}
		out = append(out, File{path.Clean(name), data})
		return nil
	})
	return out, err
}
