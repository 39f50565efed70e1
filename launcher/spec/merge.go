package spec

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
			out.put(e.key, e.origin, merge(out.get(e.key), e.value, join(path, e.key)))
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
		return nil, n.origin.errorf(key, "", "must be a map, not %s", n.describe())
	}
	return &Document{root: n}, nil
}

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
		visitAll(e.value, join(path, e.key), visit)
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
