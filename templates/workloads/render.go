package workloads

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"al.essio.dev/pkg/shellescape"
	kyaml "sigs.k8s.io/yaml"
)

// templateSuffix is that of files in which [[ ]] is replaced. All others are copied, because [[ is usual in programs.
const templateSuffix = ".tmpl"

// quoting are the functions through which a value reaches a file: each makes one word of the file's language of any value.
var quoting = template.FuncMap{"yaml": yamlWord, "sh": shellWord, "py": pythonWord}

// arithmetic is of the type int.
var arithmetic = template.FuncMap{
	"mul": func(n ...int) int {
		product := 1
		for _, x := range n {
			product *= x
		}
		return product
	},
	"div": func(a, b int) (int, error) {
		if b == 0 {
			return 0, errors.New("division by zero")
		}
		return a / b, nil
	},
	"add": func(a, b int) int { return a + b },
	"sub": func(a, b int) int { return a - b },
}

// places are where the nodes have a model: it is a directory of theirs, or one below the shared directory, into which it is loaded.
var places = template.FuncMap{
	"isPath": path.IsAbs,
	"modelDir": func(shared, model string) string {
		if path.IsAbs(model) {
			return model
		}
		return shared + "/models/" + model
	},
}

// plainYAML is text that means itself in each place of a YAML document, unless it is one of YAML's own words.
var plainYAML = regexp.MustCompile(`^[A-Za-z/](?:[A-Za-z0-9._/@-]|:[A-Za-z0-9])*$`)

// yamlWord is a value as a scalar, also within { }.
func yamlWord(v any) (string, error) {
	text, isText := v.(string)
	if !isText {
		return fmt.Sprint(v), nil
	}
	if plainYAML.MatchString(text) {
		made, err := kyaml.Marshal(text)
		if err == nil && string(made) == text+"\n" {
			return text, nil
		}
	}
	return jsonText(text)
}

func shellWord(v any) string { return shellescape.Quote(fmt.Sprint(v)) }

// pythonWord is a value as a literal. A string of JSON is one of Python.
func pythonWord(v any) (string, error) {
	switch v := v.(type) {
	case bool:
		if v {
			return "True", nil
		}
		return "False", nil
	case string:
		return jsonText(v)
	default:
		return fmt.Sprint(v), nil
	}
}

func jsonText(text string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(text)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// render fills in a file of the template.
func (m *Manifest) render(name string, data []byte, values map[string]any) ([]byte, error) {
	fail := func(err error) error {
		text := strings.ReplaceAll(err.Error(), "template: ", "")
		return &Error{File: m.Name + "/" + name, Msg: text, Hint: formatHint}
	}
	t, err := template.New(name).Delims("[[", "]]").Option("missingkey=error").Funcs(quoting).Funcs(arithmetic).Funcs(places).Parse(string(data))
	if err != nil {
		return nil, fail(err)
	}
	for _, part := range t.Templates() {
		if part.Tree == nil {
			continue
		}
		if bare := unquoted(part.Root); bare != "" {
			return nil, fail(fmt.Errorf("%s is not quoted: end it with | yaml, | sh or | py", bare))
		}
	}
	out := &bounded{}
	if err := t.Execute(out, values); err != nil {
		return nil, fail(err)
	}
	if ext := path.Ext(strings.TrimSuffix(name, templateSuffix)); ext == ".yaml" || ext == ".yml" {
		if err := kyaml.Unmarshal(out.Bytes(), new(any)); err != nil {
			return nil, fail(fmt.Errorf("it is no YAML with these values: %s", yamlCause(err)))
		}
	}
	return out.Bytes(), nil
}

// unquoted is the first action that writes a value without a quoting function; "" if there is none.
func unquoted(node parse.Node) string {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return ""
		}
		for _, child := range n.Nodes {
			if bare := unquoted(child); bare != "" {
				return bare
			}
		}
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 && !quotes(n.Pipe) {
			return n.String()
		}
	case *parse.IfNode:
		return unquotedOf(&n.BranchNode)
	case *parse.RangeNode:
		return unquotedOf(&n.BranchNode)
	case *parse.WithNode:
		return unquotedOf(&n.BranchNode)
	}
	return ""
}

func unquotedOf(n *parse.BranchNode) string {
	if bare := unquoted(n.List); bare != "" {
		return bare
	}
	return unquoted(n.ElseList)
}

// quotes reports whether a pipe ends with a quoting function.
func quotes(pipe *parse.PipeNode) bool {
	last := pipe.Cmds[len(pipe.Cmds)-1]
	function, is := last.Args[0].(*parse.IdentifierNode)
	return is && quoting[function.Ident] != nil
}

// bounded refuses to become larger than a file of a template may be.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxFile {
		return 0, errors.New("the file becomes larger than 1 MiB")
	}
	return b.Buffer.Write(p)
}

// Files are the files of a template with these values, by name. Their names may have folders.
func (t *Template) Files(values map[string]any) ([]File, error) {
	sources, err := t.sources()
	if err != nil {
		return nil, err
	}
	var out []File
	for _, source := range sources {
		name, isTemplate := strings.CutSuffix(source.Name, templateSuffix)
		content := source.Content
		if isTemplate {
			if content, err = t.render(source.Name, content, values); err != nil {
				return nil, err
			}
		}
		name = path.Join(t.Place, name)
		if slices.ContainsFunc(out, func(f File) bool { return f.Name == name }) {
			return nil, &Error{File: t.Name + "/" + source.Name, Msg: "another file of the template has the same name", Hint: "remove one of them"}
		}
		out = append(out, File{name, content})
	}
	return out, nil
}
