package workloads

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ManifestName is the file that makes a folder a template.
const ManifestName = "template.yaml"

// formatVersion is the only version of the format of manifests. docs/templates.md explains the format.
const formatVersion = 1

// Manifest is what a template says about itself.
type Manifest struct {
	Version    int         `yaml:"version" json:"version"`
	Name       string      `yaml:"-" json:"name"` // that of the folder
	Title      string      `yaml:"title" json:"title"`
	Group      string      `yaml:"group" json:"group,omitempty"` // the heading below which lists have it
	For        string      `yaml:"for" json:"for"`               // whom, in one sentence
	Aliases    []string    `yaml:"aliases" json:"aliases,omitempty"`
	Framework  Framework   `yaml:"framework" json:"framework,omitzero"`
	Launchers  []string    `yaml:"launchers" json:"launchers,omitempty"` // the first is the default
	Parameters []Parameter `yaml:"parameters" json:"parameters,omitempty"`
	Checks     []Check     `yaml:"checks" json:"checks,omitempty"`
	Needs      Needs       `yaml:"needs" json:"needs,omitzero"`
	Ran        []Evidence  `yaml:"ran" json:"ran,omitempty"`         // what a test runs
	Checked    []Evidence  `yaml:"checked" json:"checked,omitempty"` // what is only compared with the framework
	Sources    []string    `yaml:"sources" json:"sources,omitempty"` // where the options were read
	Place      string      `yaml:"place" json:"place,omitempty"`     // a folder for the files, below the one that the user names
	Keeps      []string    `yaml:"keeps" json:"keeps,omitempty"`     // files that stay as they are where they exist: the programs that the user wants to run
	Uses       []string    `yaml:"uses" json:"uses,omitempty"`       // files that must be there and that the template does not write
	Next       []Step      `yaml:"next" json:"next,omitempty"`
}

// Framework is what a template runs.
type Framework struct {
	Name    string `yaml:"name" json:"name"`
	Version string `yaml:"version" json:"version,omitempty"`
	Source  string `yaml:"source" json:"source,omitempty"`
}

// Needs are what nodes must have, each in the words of an administrator.
type Needs struct {
	Image   string `yaml:"image" json:"image,omitempty"`
	GPUs    string `yaml:"gpus" json:"gpus,omitempty"`
	Shm     string `yaml:"shm" json:"shm,omitempty"`
	Memlock string `yaml:"memlock" json:"memlock,omitempty"`
	Ulimits string `yaml:"ulimits" json:"ulimits,omitempty"`
	Ports   string `yaml:"ports" json:"ports,omitempty"`
	Storage string `yaml:"storage" json:"storage,omitempty"`
}

// Evidence is a test, and what it was run on or compared with.
type Evidence struct {
	Test    string `yaml:"test" json:"test"`
	On      string `yaml:"on" json:"on,omitempty"`           // where it ran, such as local
	Against string `yaml:"against" json:"against,omitempty"` // what it was compared with, such as the parser of the wheel
	Version string `yaml:"version" json:"version,omitempty"`
	Commit  string `yaml:"commit" json:"commit,omitempty"`
}

// Step is what a user does next: a command in the folder with the files, or something else.
type Step struct {
	Run string `yaml:"run" json:"run,omitempty"`
	Say string `yaml:"say" json:"say,omitempty"` // what to do, or when to run the command
}

// groups are the headings of lists, in their order. Templates of a team need none.
var groups = []string{"start", "rl", "ray", "ci"}

// launcherNames are those that a manifest may have. The program that lists the templates may be built without some of them.
var launcherNames = []string{"local", "tsp", "slurm", "kuberay"}

// Error is a template that cannot be used; its text is one sentence.
type Error struct {
	File string // below the template's folder, or the folder
	Msg  string
	Hint string
}

func (e *Error) Error() string { return e.File + ": " + e.Msg + ": " + e.Hint }

const formatHint = "`rayctl help templates` explains the format"

// readManifest decodes a manifest, strictly, and checks it. name is that of the template, file is for messages.
func readManifest(name, file string, data []byte) (*Manifest, error) {
	fail := func(hint, format string, args ...any) error {
		return &Error{File: file, Msg: fmt.Sprintf(format, args...), Hint: hint}
	}
	var header struct {
		Version any `yaml:"version"`
	}
	switch err := yaml.Unmarshal(data, &header); {
	case err != nil:
		return nil, fail(formatHint, "%s", yamlCause(err))
	case header.Version == nil:
		return nil, fail("begin it with version: 1", "the version of its format is missing")
	case header.Version != formatVersion:
		return nil, fail("another rayctl may know it; this one knows version 1", "its format has the version %v", header.Version)
	}
	m := &Manifest{}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(m); err != nil {
		return nil, fail(formatHint, "%s", yamlCause(err))
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, fail(formatHint, "there is more than one document")
	}
	m.Name = name
	if msg := m.wrong(); msg != "" {
		return nil, fail(formatHint, "%s", msg)
	}
	return m, nil
}

// unknownField is yaml's text for a key that the format does not have.
var unknownField = regexp.MustCompile(`^(line \d+): field (.*) not found in type \S+$`)

// yamlCause is the first error of a document, in one line.
func yamlCause(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var types *yaml.TypeError
	if errors.As(err, &types) {
		text = types.Errors[0]
	}
	text, _, _ = strings.Cut(text, "\n")
	return unknownField.ReplaceAllString(text, `$1: unknown key "$2"`)
}

// wrong is what contradicts the format; "" if nothing does.
func (m *Manifest) wrong() string {
	switch {
	case m.Title == "" || strings.ContainsAny(m.Title, "\n\t"):
		return "title is what lists show: one line"
	case m.Group != "" && !slices.Contains(groups, m.Group):
		return fmt.Sprintf("group %q is none of %s", m.Group, strings.Join(groups, ", "))
	case m.Place != "" && (!filepath.IsLocal(m.Place) || slices.Contains(strings.Split(m.Place, "/"), ".git")):
		return fmt.Sprintf("place %q is not a folder below the one that the user names", m.Place)
	}
	for _, l := range m.Launchers {
		if !slices.Contains(launcherNames, l) {
			return fmt.Sprintf("launcher %q is none of %s", l, strings.Join(launcherNames, ", "))
		}
	}
	for _, s := range m.Next {
		if s.Run == "" && s.Say == "" {
			return "a step of next has neither run nor say"
		}
	}
	return m.wrongParameters()
}

// wrongParameters is what contradicts the format in parameters and checks.
func (m *Manifest) wrongParameters() string {
	seen := map[string]bool{nameParameter: true, launcherParameter: true}
	for i := range m.Parameters {
		p := &m.Parameters[i]
		if seen[p.Name] {
			return fmt.Sprintf("there are two parameters %s; name and launcher are there without being listed", p.Name)
		}
		seen[p.Name] = true
		if msg := p.wrong(); msg != "" {
			return msg
		}
		if name := m.unknownWhen(p.When); name != "" {
			return fmt.Sprintf("parameter %s is for a value of %s, which is no parameter", p.Name, name)
		}
	}
	for i := range m.Checks {
		if err := m.Checks[i].parse(m); err != nil {
			return err.Error()
		}
	}
	values, err := m.Values(nil, "name")
	if err == nil {
		err = m.CheckValues(values)
	}
	if err != nil {
		return "the defaults do not fit: " + err.Error()
	}
	return ""
}
