package spec

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Merge merges over into the document; over's values win key by key. Workers are merged by the groups' names, new groups come last;
// other lists are replaced as a whole.
func (d *Document) Merge(over *Document) { d.root = merge(d.root, over.root, "") }

func merge(base, over *node, path string) *node {
	switch {
	case base == nil || base.isNull():
		return over
	case over.isNull() && base.kind == objectKind:
		return base // an empty section has no values to merge
	case base.kind == objectKind && over.kind == objectKind:
		out := &node{kind: objectKind, origin: over.origin, entries: append([]entry(nil), base.entries...)}
		for _, e := range over.entries {
			out.put(e.key, e.origin, merge(out.get(e.key), e.value, Join(path, e.key)))
		}
		return out
	case path == "workers" && base.kind == listKind && over.kind == listKind:
		return mergeByName(base, over)
	default:
		return over
	}
}

func mergeByName(base, over *node) *node {
	out := &node{kind: listKind, origin: over.origin, items: append([]*node(nil), base.items...)}
	for _, it := range over.items {
		replaced := false
		for i, b := range out.items {
			if name := it.itemName(); name != "" && b.itemName() == name && !replaced {
				out.items[i] = merge(b, it, "workers[]")
				replaced = true
			}
		}
		if !replaced {
			out.items = append(out.items, it)
		}
	}
	return out
}

// Take removes a top-level key and returns its value as a document; nil if the key is not there. The value must be a map.
func (d *Document) Take(key string) (*Document, error) {
	n := d.root.remove(key)
	if n == nil {
		return nil, nil
	}
	if n.isNull() {
		return &Document{root: &node{kind: objectKind, origin: n.origin}}, nil
	}
	if n.kind != objectKind {
		return nil, n.origin.errorf(key, "write it as KEY: VALUE lines", "must be a map, not %s", n.describe())
	}
	return &Document{root: n}, nil
}

// Drop removes a top-level key.
func (d *Document) Drop(key string) { d.root.remove(key) }

// Has reports whether the document has this top-level key.
func (d *Document) Has(key string) bool { return d.root.get(key) != nil }

// Keys are the keys of the top level, in their order.
func (d *Document) Keys() []string {
	keys := make([]string, len(d.root.entries))
	for i, e := range d.root.entries {
		keys[i] = e.key
	}
	return keys
}

// SetProfile marks everything in the document as part of a profile.
func (d *Document) SetProfile(name string) {
	d.root.eachOrigin(func(o *Origin) { o.Profile = name })
}

// SetDir sets the folder that relative paths in the document are relative to.
func (d *Document) SetDir(dir string) {
	d.root.eachOrigin(func(o *Origin) { o.Dir = dir })
}

// GroupNames are the names of the worker groups, in their order.
func (d *Document) GroupNames() (names []string) {
	if w := d.root.get("workers"); w != nil {
		for _, it := range w.items {
			names = append(names, it.itemName())
		}
	}
	return names
}

// AddGroup appends an empty worker group.
func (d *Document) AddGroup(name string, o Origin) {
	w := d.root.get("workers")
	if w == nil || w.kind != listKind {
		w = &node{kind: listKind, origin: o}
	}
	group := &node{kind: objectKind, origin: o}
	group.put("name", o, &node{kind: scalarKind, tag: "!!str", text: name, origin: o})
	grown := &node{kind: listKind, origin: w.origin, items: append(append([]*node(nil), w.items...), group)}
	d.root.put("workers", o, grown)
}

// Origins maps the path of each value, also of maps and lists, to its origin. Paths have list items by name, else by index.
func (d *Document) Origins() map[string]Origin {
	out := map[string]Origin{}
	visitAll(d.root, "", func(path string, n *node) { out[path] = n.origin })
	delete(out, "")
	return out
}

func visitAll(n *node, path string, visit func(string, *node)) {
	visit(path, n)
	for i, it := range n.items {
		visitAll(it, itemPath(path, i, it), visit)
	}
	for _, e := range n.entries {
		visitAll(e.value, Join(path, e.key), visit)
	}
}

// leaves visits the values without children, in their order.
func leaves(n *node, path string, visit func(string, *node)) {
	visitAll(n, path, func(p string, n *node) {
		if len(n.items)+len(n.entries) == 0 {
			visit(p, n)
		}
	})
}

// Set sets the key at path, such as slurm.partition, env.HF_HOME or workers.trainer.replicas. For keys with a single value the text
// is taken literally, for others as YAML. Groups in a list are addressed by name.
func (d *Document) Set(path, text string, o Origin) error {
	return set(d.root, reflect.TypeFor[ClusterSpec](), "", path, o, func(_ *node, t reflect.Type, path string) (*node, error) { return valueOf(text, t, path, o) })
}

// SetText is Set for a text that is never YAML.
func (d *Document) SetText(path, text string, o Origin) error {
	return set(d.root, reflect.TypeFor[ClusterSpec](), "", path, o, func(*node, reflect.Type, string) (*node, error) { return textNode(text, o), nil })
}

// Append adds a text to the end of the list at path; requirements that are a file's name become a list that begins with it. The list keeps its directory,
// to which the text must be relative. What is no list stays, for Decode to refuse.
func (d *Document) Append(path, text string, o Origin) error {
	return set(d.root, reflect.TypeFor[ClusterSpec](), "", path, o, func(old *node, t reflect.Type, _ string) (*node, error) {
		list := &node{kind: listKind, origin: o, items: []*node{textNode(text, o)}}
		switch {
		case old == nil || old.isEmpty():
			return list, nil
		case old.kind == listKind:
			list.text, list.items = old.text, slices.Concat(old.items, list.items)
		case t == requirementsType && old.tag == "!!str":
			list.text, list.items = old.text, append([]*node{old}, list.items...)
		default:
			return old, nil
		}
		list.origin.Dir = old.origin.Dir
		return list, nil
	})
}

// Filled reports whether something is given at path, which has no list in it.
func (d *Document) Filled(path string) bool {
	n := d.root
	for key := range strings.SplitSeq(path, ".") {
		if n = n.get(key); n == nil {
			return false
		}
	}
	return !n.isEmpty()
}

// newValue makes the node at path, of type t, in place of an old one, which may be nil.
type newValue func(old *node, t reflect.Type, path string) (*node, error)

func set(n *node, t reflect.Type, at, rest string, o Origin, value newValue) error {
	key, more, nested := strings.Cut(rest, ".")
	t = deref(t)
	switch {
	case t.Kind() == reflect.Struct && t != quantityType && t != requirementsType && key != "":
		f, ok := findField(t, key)
		if !ok {
			return unknownKey(entry{key: key, origin: o}, at, t)
		}
		return descend(n, f.typ, at, key, more, nested, o, value)
	case t == objectType && nested:
		return descend(n, t, at, key, more, nested, o, value)
	case t.Kind() == reflect.Map && isScalar(t.Elem()):
		return descend(n, t.Elem(), at, rest, "", false, o, value)
	case t.Kind() == reflect.Map && key != "":
		return descend(n, t.Elem(), at, key, more, nested, o, value)
	case at == "workers":
		group := n.named(key)
		if group == nil || key == "" {
			return o.errorf(at, "the groups are "+strings.Join(itemNames(n), ", "), "there is no worker group %q", key)
		}
		return set(group, t.Elem(), Join(at, key), more, o, value)
	case key == "":
		return o.errorf(at, "`rayctl schema` lists the keys with their meaning", "has no key %q below it", rest)
	default:
		return o.errorf(at, "set "+Printable(at)+" itself", "has no key %q below it", rest)
	}
}

// descend sets the value of key in n, or continues below that key.
func descend(n *node, t reflect.Type, at, key, more string, nested bool, o Origin, value newValue) error {
	path := Join(at, key)
	if !nested {
		v, err := value(n.get(key), t, path)
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
		return o.errorf(path, "set "+Printable(path)+" itself", "is a single value and has no key %q below it", more)
	}
	if err := set(child, t, path, more, o, value); err != nil {
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

// isTextList reports whether t is a list of texts, as those of packages are.
func isTextList(t reflect.Type) bool {
	return t == requirementsType || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String
}

// withExtras matches a package with extras, and the version behind it.
var withExtras = regexp.MustCompile(`[A-Za-z0-9._-]+\[[A-Za-z0-9._, -]*\](?:[^\[\],'"{}]*[^\[\],'"{}\s])?`)

// quoteExtras quotes packages with extras in a list such as [ray[tune], jax], because a bracket ends a plain text in YAML. A text that has quotes is its
// writer's.
func quoteExtras(text string) string {
	if strings.ContainsAny(text, `'"`) || !strings.HasPrefix(strings.TrimSpace(text), "[") {
		return text
	}
	return withExtras.ReplaceAllString(text, "'$0'")
}

// valueOf makes a node from text given outside a file.
func valueOf(text string, t reflect.Type, path string, o Origin) (*node, error) {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, o.errorf(Printable(path), "", "the value %q is not text in UTF-8", text)
	}
	if isScalar(t) {
		return &node{kind: scalarKind, tag: inferTag(text), text: text, origin: o}, nil
	}
	y, err := parseYAML([]byte(text))
	if err != nil && isTextList(t) {
		y, err = parseYAML([]byte(quoteExtras(text)))
	}
	if err != nil || y == nil {
		form := "give it as YAML, such as [a, b] or {a: b}"
		if isTextList(t) {
			form = `give it as YAML, with quotes around an entry that has brackets, such as [a, "b[c]"]`
		}
		return nil, o.errorf(path, form, "%q is not valid here", text)
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
