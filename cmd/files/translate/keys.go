package translate

import (
	"bytes"
	"cmp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// keys is a map of the cluster file in the making, in its order and with its comments.
type keys struct{ node *yaml.Node }

func newKeys() keys { return keys{&yaml.Node{Kind: yaml.MappingNode}} }

func (k keys) get(key string) *yaml.Node {
	for i := 0; i < len(k.node.Content); i += 2 {
		if k.node.Content[i].Value == key {
			return k.node.Content[i+1]
		}
	}
	return nil
}

func (k keys) has(key string) bool { return k.get(key) != nil }

// set sets a key to what the YAML library writes for a value. comment may be empty.
func (k keys) set(key string, value any, comment string) {
	node := &yaml.Node{}
	if err := node.Encode(value); err != nil {
		panic("translate: " + err.Error()) // impossible: values are texts, numbers, and what JSON has
	}
	k.put(key, node, comment)
}

func (k keys) put(key string, node *yaml.Node, comment string) {
	name := &yaml.Node{}
	if err := name.Encode(key); err != nil {
		panic("translate: " + err.Error()) // impossible: it is a text
	}
	if comment = oneLine(comment); comment != "" && node.Kind == yaml.ScalarNode {
		node.LineComment = "# " + comment
	} else if comment != "" {
		name.HeadComment = "# " + comment
	}
	for i := 0; i < len(k.node.Content); i += 2 {
		if k.node.Content[i].Value == key {
			k.node.Content[i], k.node.Content[i+1] = name, node
			return
		}
	}
	k.node.Content = append(k.node.Content, name, node)
}

// below is the map of a key, which is made if it is missing.
func (k keys) below(key string) keys {
	if node := k.get(key); node != nil {
		return keys{node}
	}
	k.put(key, newKeys().node, "")
	return keys{k.get(key)}
}

// add appends to the list of a key.
func (k keys) add(key string, value any) {
	node := &yaml.Node{}
	if below, ok := value.(keys); ok {
		node = below.node
	} else if err := node.Encode(value); err != nil {
		panic("translate: " + err.Error()) // impossible: as in set
	}
	if !k.has(key) {
		k.put(key, &yaml.Node{Kind: yaml.SequenceNode}, "")
	}
	list := k.get(key)
	for _, there := range list.Content {
		if there.Kind == yaml.ScalarNode && there.Value == node.Value && node.Kind == yaml.ScalarNode {
			return
		}
	}
	list.Content = append(list.Content, node)
}

// sort brings the keys into an order.
func (k keys) sort(order []string) {
	type pair struct{ key, value *yaml.Node }
	var pairs []pair
	for i := 0; i < len(k.node.Content); i += 2 {
		pairs = append(pairs, pair{k.node.Content[i], k.node.Content[i+1]})
	}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		return cmp.Compare(slices.Index(order, a.key.Value), slices.Index(order, b.key.Value))
	})
	k.node.Content = nil
	for _, p := range pairs {
		k.node.Content = append(k.node.Content, p.key, p.value)
	}
}

func (k keys) text() ([]byte, error) {
	if len(k.node.Content) == 0 {
		return nil, nil
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(k.node); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

func (k keys) remove(key string) {
	for i := 0; i < len(k.node.Content); i += 2 {
		if k.node.Content[i].Value == key {
			k.node.Content = slices.Delete(k.node.Content, i, i+2)
			return
		}
	}
}

// plainScalar is a number as it is written.
func plainScalar(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }
