package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds far above any real cluster file; they keep alias bombs and wrong files (a checkpoint, a log) from exhausting the machine.
const (
	MaxFileBytes = 4 << 20
	maxNodes     = 100_000
	maxDepth     = 100
)

// Document is a parsed cluster file, profile or manifest with the origin of each value. Documents are
// merged and changed before one of them is decoded.
type Document struct{ root *node }

// ProfilesKey is the key of the cluster file and of the user's configuration that holds profiles by name.
const ProfilesKey = "profiles"

// NewDocument is an empty document.
func NewDocument() *Document { return &Document{root: &node{kind: objectKind}} }

// Parse reads one YAML (or JSON) document without checking its keys. filename is for messages; relative paths in the document are
// relative to its folder.
func Parse(r io.Reader, filename string) (*Document, error) {
	return parse(r, filename, "cluster file", "start with `name: my-cluster`")
}

// ParseRuntimeEnv is Parse for a runtime_env of Ray, which MergeRuntimeEnv takes.
func ParseRuntimeEnv(r io.Reader, filename string) (*Document, error) {
	return parse(r, filename, "runtime_env", "write it like `env_vars: {SEED: 1}`")
}

// parse is Parse for what a document is, with an example of its beginning.
func parse(r io.Reader, filename, what, example string) (*Document, error) {
	fail := func(hint, format string, args ...any) error {
		return &Error{File: filename, Msg: fmt.Sprintf(format, args...), Hint: hint}
	}
	data, err := io.ReadAll(io.LimitReader(r, MaxFileBytes+1))
	if err != nil {
		return nil, fail("name one that you may read", "cannot be read: %v", err)
	}
	if len(data) > MaxFileBytes {
		return nil, fail("name another file", "is larger than 4 MiB, which no %s is", what)
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil, fail("save it as UTF-8", "is not a text file in UTF-8")
	}
	root, err := parseYAML(data)
	if err != nil {
		return nil, yamlError(filename, err)
	}
	c := converter{base: Origin{Source: filename, Dir: dirOf(filename)}}
	if root == nil {
		return &Document{root: &node{kind: objectKind, origin: c.base}}, nil
	}
	n, cerr := c.convert(root, 0)
	if cerr != nil {
		return nil, cerr
	}
	if n.isNull() {
		n = &node{kind: objectKind, origin: n.origin}
	}
	if n.kind != objectKind {
		return nil, n.origin.errorf("", example, "a %s is a map of keys, this is %s", what, n.describe())
	}
	return &Document{root: n}, nil
}

var errSecondDocument = errors.New("a second YAML document begins here; a cluster file is one document")

// parseYAML returns the one document's node, nil if there is none.
func parseYAML(data []byte) (root *yaml.Node, err error) {
	// The YAML library panics on some malformed input instead of returning an error.
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, fmt.Errorf("yaml: %v", p)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	switch err := dec.Decode(&next); {
	case err == nil:
		return nil, fmt.Errorf("yaml: line %d: %w", next.Line, errSecondDocument)
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?([\s\S]*)$`)

// yamlError turns the library's "yaml: line 3: did not find ..." into an Error with the line as Line.
func yamlError(filename string, err error) *Error {
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return &Error{File: filename, Msg: err.Error()}
	}
	line, _ := strconv.Atoi(m[1])
	e := &Error{File: filename, Line: line, Msg: m[2]}
	if !errors.Is(err, errSecondDocument) {
		e.Msg, e.Hint = "is not valid YAML: "+e.Msg, yamlHints[m[2]]
	}
	return e
}

// yamlHints are what most often causes an error of the YAML library (libyaml's scanner.c, as go.yaml.in has it).
var yamlHints = map[string]string{
	"found character that cannot start any token":            "indent with spaces instead of tabs, and put quotes around a text that begins with @, ` or %",
	"mapping values are not allowed in this context":         "a key cannot stand below a line that has its value already; put quotes around a text with a colon and a space in it",
	"did not find expected '-' indicator":                    "entries of a list begin with - at the same column",
	"did not find expected ',' or ']'":                       `put quotes around an entry that has brackets, as in ["ray[tune]"], and end the list with ]`,
	"did not find expected key":                              "keys of one level begin at the same column",
	"block sequence entries are not allowed in this context": "a list's entries stand on lines of their own below the key",
}

// converter converts the library's nodes: it resolves aliases and checks keys.
type converter struct {
	base  Origin
	count int
}

func (c *converter) convert(y *yaml.Node, depth int) (*node, *Error) {
	o := c.base
	o.Line = y.Line
	if c.count++; c.count > maxNodes || depth > maxDepth {
		return nil, o.errorf("", "", "the file has more than %d values or %d levels, which no cluster file has", maxNodes, maxDepth)
	}
	switch y.Kind {
	case yaml.AliasNode:
		n, err := c.convert(y.Alias, depth+1)
		if n != nil {
			n.origin = o
		}
		return n, err
	case yaml.SequenceNode:
		return c.list(y, o, depth)
	case yaml.MappingNode:
		return c.object(y, o, depth)
	default:
		return c.scalar(y, o)
	}
}

func (c *converter) scalar(y *yaml.Node, o Origin) (*node, *Error) {
	tag := y.ShortTag()
	switch tag {
	case "!!str", "!!int", "!!float", "!!bool", "!!null":
	case "!!timestamp":
		tag = "!!str"
	default:
		return nil, o.errorf("", "write a plain value", "the YAML tag %s is not supported", tag)
	}
	return &node{kind: scalarKind, tag: tag, text: y.Value, origin: o}, nil
}

func (c *converter) list(y *yaml.Node, o Origin, depth int) (*node, *Error) {
	n := &node{kind: listKind, origin: o}
	for _, item := range y.Content {
		v, err := c.convert(item, depth+1)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, v)
	}
	return n, nil
}

func (c *converter) object(y *yaml.Node, o Origin, depth int) (*node, *Error) {
	n := &node{kind: objectKind, origin: o}
	lines := make(map[string]int, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		k, v := y.Content[i], y.Content[i+1]
		ko := o
		ko.Line = k.Line
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			return nil, ko.errorf("", "put quotes around a key that begins with { or [", "a key must be a single value")
		}
		if k.ShortTag() == "!!merge" {
			return nil, ko.errorf("", "repeat the keys, or use an alias for a whole value", "merge keys (<<) are not supported")
		}
		if first, dup := lines[k.Value]; dup {
			return nil, ko.errorf("", "keep one", "the key %q is given twice, first in line %d", k.Value, first)
		}
		lines[k.Value] = ko.Line
		value, err := c.convert(v, depth+1)
		if err != nil {
			return nil, err
		}
		n.entries = append(n.entries, entry{k.Value, ko, value})
	}
	return n, nil
}

// dirOf is the absolute folder of a file; "" if there is no file.
func dirOf(filename string) string {
	if filename == "" {
		return ""
	}
	dir, err := filepath.Abs(filepath.Dir(filename))
	if err != nil {
		return ""
	}
	return dir
}

// resolvePath makes a path of the client absolute, by the field's struct tag `path`:
//
//	client   a file or directory of the client: relative to dir, ~ is the home directory
//	program  the same if it has a slash or begins with a dot, but ~ is left alone (it may mean the nodes' home); a bare name is looked
//	         up on PATH where it runs
//	nodes    a path on the nodes: relative to dir too, but ~ is left alone
//
// A map with the tag runtimeEnv contains such paths of the client, see ClientFiles.
//
// URIs stay as they are.
func resolvePath(p, dir, tag string) string {
	if tag == "" || p == "" || IsURI(p) {
		return p
	}
	if tag == "program" && (!strings.Contains(p, "/") && !strings.HasPrefix(p, ".") || strings.HasPrefix(p, "~")) {
		return p
	}
	if tag != "nodes" {
		p = ExpandHome(p)
	} else if strings.HasPrefix(p, "~") {
		return p
	}
	if filepath.IsAbs(p) || dir == "" {
		return p
	}
	return filepath.Join(dir, p)
}

// OnClient makes a file's name one of this machine: with ~ expanded, and relative to dir, "" being the current directory.
func OnClient(file, dir string) string { return resolvePath(file, dir, "client") }

// ExpandHome replaces a leading ~ by this user's home directory.
func ExpandHome(p string) string {
	if p != "~" && !strings.HasPrefix(p, "~/") {
		return p
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return p
	}
	return filepath.Join(home, p[1:])
}

// IsURI reports whether a working directory or module is a remote URI that Ray fetches itself.
func IsURI(p string) bool {
	scheme, _, ok := strings.Cut(p, "://")
	return ok && scheme != "" && !strings.ContainsAny(scheme, "/ ")
}

// rayTag matches images whose name has "ray" in it: the tags of others, such as verl:0.9.1, are versions of something else.
var rayTag = regexp.MustCompile(`(?i)(?:^|/)[^/:]*ray[^/:]*:(\d+\.\d+\.\d+)([.-][^/]*)?$`)

// RayOfImage is the version of Ray that the tag of an image shows, such as rayproject/ray:2.60.0-py311; "" if it shows none.
func RayOfImage(image string) string {
	if m := rayTag.FindStringSubmatch(image); m != nil {
		return m[1]
	}
	return ""
}

// PlainYAML parses the one document of a YAML text into maps, lists and scalars, as JSON has them. An error is an *Error with the line in the text, if it has one.
func PlainYAML(text string) (any, error) {
	root, err := parseYAML([]byte(text))
	if err != nil {
		e := yamlError("", err)
		if errors.Is(err, errSecondDocument) {
			e.Msg = "it has more than one YAML document"
		}
		return nil, e
	}
	if root == nil {
		return nil, nil
	}
	c := converter{}
	n, cerr := c.convert(root, 0)
	if cerr != nil {
		return nil, cerr
	}
	return n.plain()
}
