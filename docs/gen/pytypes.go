package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/rayctl/rayctl/cmd/app/served"
	"github.com/rayctl/rayctl/cmd/jobs"
	"github.com/rayctl/rayctl/launcher"
)

// answers are the documents of -o json that the Python package returns, with the names of their classes. Every other struct has its own name.
var answers = []struct {
	class string
	of    reflect.Type
}{
	{"Receipt", reflect.TypeFor[launcher.Receipt]()},
	{"Status", reflect.TypeFor[served.Status]()},
	{"Submitted", reflect.TypeFor[jobs.Document]()},
}

// pythonTypes is the module of the Python package that has the types of rayctl's answers.
func pythonTypes(dir string) ([]byte, error) {
	w := &typeWriter{root: filepath.Join(dir, ".."), names: map[reflect.Type]string{}, comments: map[string]map[string]string{}}
	for _, a := range answers {
		w.names[a.of] = a.class
	}
	for _, a := range answers {
		if err := w.class(a.of); err != nil {
			return nil, err
		}
	}
	return []byte(`"""What rayctl answers with "-o json". Made from the Go structs by "make docs".

Times are strings in RFC 3339 (UTC), durations are seconds. A key of a class whose name ends with "Always" is always there, others may be absent.
"""

from typing import Any, Dict, List, Optional, TypedDict
` + strings.Join(w.classes, "")), nil
}

// typeWriter writes each struct once, after those that it refers to.
type typeWriter struct {
	root     string
	names    map[reflect.Type]string
	done     map[reflect.Type]bool
	comments map[string]map[string]string // by package, then Type.Field
	classes  []string
}

// class writes the class of a struct: the keys that are always there in a class of their own, because Python 3.8 cannot say it for one key.
func (w *typeWriter) class(t reflect.Type) error {
	if w.done[t] {
		return nil
	}
	if w.done == nil {
		w.done = map[reflect.Type]bool{}
	}
	w.done[t] = true
	var always, optional strings.Builder
	if err := w.fields(t, &always, &optional); err != nil {
		return err
	}
	name := w.name(t)
	switch {
	case optional.Len() == 0:
		w.classes = append(w.classes, fmt.Sprintf("\n\nclass %s(TypedDict):\n%s", name, &always))
	case always.Len() == 0:
		w.classes = append(w.classes, fmt.Sprintf("\n\nclass %s(TypedDict, total=False):\n%s", name, &optional))
	default:
		w.classes = append(w.classes, fmt.Sprintf("\n\nclass %sAlways(TypedDict):\n%s\n\nclass %s(%sAlways, total=False):\n%s", name, &always, name, name, &optional))
	}
	return nil
}

func (w *typeWriter) name(t reflect.Type) string {
	if name := w.names[t]; name != "" {
		return name
	}
	return t.Name()
}

// fields writes the keys of a struct; those of an embedded one are its own.
func (w *typeWriter) fields(t reflect.Type, always, optional *strings.Builder) error {
	for f := range t.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && tag == "" {
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if err := w.fields(embedded, always, optional); err != nil {
				return err
			}
			continue
		}
		if tag == "" || tag == "-" {
			continue
		}
		into := always
		absent := strings.Contains(options, "omit")
		if absent {
			into = optional
		}
		kind, err := w.kind(f.Type, absent)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		comment, err := w.comment(t, f.Name)
		if err != nil {
			return err
		}
		if comment != "" {
			fmt.Fprintf(into, "    # %s\n", comment)
		}
		fmt.Fprintf(into, "    %s: %s\n", tag, kind)
	}
	return nil
}

// kind is Python's type of a value. absent: nil is not written.
func (w *typeWriter) kind(t reflect.Type, absent bool) (string, error) {
	orNull := func(kind string, err error) (string, error) {
		if absent || err != nil {
			return kind, err
		}
		return "Optional[" + kind + "]", nil
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "str", nil
	case t.Kind() == reflect.Pointer:
		return orNull(w.kind(t.Elem(), true))
	}
	switch t.Kind() {
	case reflect.String:
		return "str", nil
	case reflect.Bool:
		return "bool", nil
	case reflect.Int, reflect.Int64:
		return "int", nil
	case reflect.Float64:
		return "float", nil
	case reflect.Interface:
		return "Any", nil
	case reflect.Struct:
		return w.name(t), w.class(t)
	case reflect.Array:
		of, err := w.kind(t.Elem(), true)
		return "List[" + of + "]", err
	case reflect.Slice:
		of, err := w.kind(t.Elem(), true)
		return orNull("List["+of+"]", err)
	case reflect.Map:
		of, err := w.kind(t.Elem(), true)
		return orNull("Dict[str, "+of+"]", err)
	}
	return "", fmt.Errorf("no Python type for %s", t)
}

// comment is what the Go source says of a field, in one line.
func (w *typeWriter) comment(t reflect.Type, field string) (string, error) {
	folder := strings.TrimPrefix(t.PkgPath(), "github.com/rayctl/rayctl/")
	if w.comments[folder] == nil {
		found, err := fieldComments(filepath.Join(w.root, folder))
		if err != nil {
			return "", err
		}
		w.comments[folder] = found
	}
	return w.comments[folder][t.Name()+"."+field], nil
}

// fieldComments are the comments of the fields of a package's structs, by Type.Field.
func fieldComments(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						found[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
					}
				}
			}
			return true
		})
	}
	return found, nil
}
