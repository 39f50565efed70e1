package spec

import (
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Set sets the key at path, such as slurm.partition, env.HF_HOME or workers.trainer.replicas. For keys with a single value the text
// is taken literally, for others as YAML. Groups in a list are addressed by name.
func (d *Document) Set(path, text string, o Origin) error {
	return set(d.root, reflect.TypeFor[ClusterSpec](), "", path, text, o)
}

func set(n *node, t reflect.Type, at, rest, text string, o Origin) error {
	key, more, nested := strings.Cut(rest, ".")
	t = deref(t)
	switch {
	case t.Kind() == reflect.Struct && t != quantityType && t != requirementsType && key != "":
		f, ok := findField(t, key)
		if !ok {
			return unknownKey(entry{key: key, origin: o}, at, t)
		}
		return descend(n, f.typ, at, key, more, nested, text, o)
	case t == objectType && nested:
		return descend(n, t, at, key, more, nested, text, o)
	case t.Kind() == reflect.Map && isScalar(t.Elem()):
		return descend(n, t.Elem(), at, rest, "", false, text, o)
	case t.Kind() == reflect.Map && key != "":
		return descend(n, t.Elem(), at, key, more, nested, text, o)
	case at == "workers":
		group := n.named(key)
		if group == nil || key == "" {
			return o.errorf(at, "the groups are "+strings.Join(itemNames(n), ", "), "there is no worker group %q", key)
		}
		return set(group, t.Elem(), join(at, key), more, text, o)
	default:
		return o.errorf(at, "", "has no key %q below it", rest)
	}
}

// descend sets the value of key in n, or continues below that key.
func descend(n *node, t reflect.Type, at, key, more string, nested bool, text string, o Origin) error {
	path := join(at, key)
	if !nested {
		v, err := valueOf(text, t, path, o)
		if err == nil {
			n.put(key, o, v)
		}
		return err
	}
	child := n.get(key)
	switch {
	case child == nil || child.isNull():
		child = &node{kind: objectKind, origin: o}
	case child.kind == objectKind:
		child = &node{kind: objectKind, origin: child.origin, entries: append([]entry(nil), child.entries...)}
	case child.kind == scalarKind:
		return o.errorf(path, "", "is a single value and has no key %q below it", more)
	}
	if err := set(child, t, path, more, text, o); err != nil {
		return err
	}
	n.put(key, o, child)
	return nil
}

func itemNames(n *node) (names []string) {
	for _, it := range n.items {
		names = append(names, it.itemName())
	}
	if names == nil {
		names = []string{"none"}
	}
	return names
}

// valueOf makes a node from text given outside a file.
func valueOf(text string, t reflect.Type, path string, o Origin) (*node, error) {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, o.errorf(printable(path), "", "the value %q is not text in UTF-8", text)
	}
	if isScalar(t) {
		return &node{kind: scalarKind, tag: inferTag(text), text: text, origin: o}, nil
	}
	y, err := parseYAML([]byte(text))
	if err != nil || y == nil {
		return nil, o.errorf(path, "give it as YAML, such as [a, b] or {a: b}", "%q is not valid here", text)
	}
	c := converter{base: o}
	n, cerr := c.convert(y, 0)
	if cerr != nil {
		cerr.Path = path
		return nil, cerr
	}
	n.eachOrigin(func(o *Origin) { o.Line = 0 }) // lines in a flag or variable mean nothing
	return n, nil
}

var (
	intText   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	floatText = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
)

// inferTag is the YAML tag that plain text would have.
func inferTag(text string) string {
	switch {
	case text == "true" || text == "false":
		return "!!bool"
	case intText.MatchString(text):
		return "!!int"
	case floatText.MatchString(text):
		return "!!float"
	default:
		return "!!str"
	}
}
