package spec

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"sync"
)

// The comments of the types are the one source of text for the code, the schema and the reference.
//
//go:embed types.go types_job.go types_substrate.go
var typeSources embed.FS

// comments maps Type and Type.Field to the comment, on one line.
var comments = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	entries, err := typeSources.ReadDir(".")
	if err != nil {
		panic(err) // embedded by this package
	}
	for _, e := range entries {
		src, err := typeSources.ReadFile(e.Name())
		if err != nil {
			panic(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), e.Name(), src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			panic(err)
		}
		collectComments(f, out)
	}
	return out
})

func collectComments(f *ast.File, out map[string]string) {
	for _, decl := range f.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.TYPE {
			continue
		}
		for _, sp := range gen.Specs {
			ts := sp.(*ast.TypeSpec)
			out[ts.Name.Name] = oneLine(gen.Doc)
			st, ok := ts.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range st.Fields.List {
				for _, n := range f.Names {
					out[ts.Name.Name+"."+n.Name] = oneLine(f.Doc)
				}
			}
		}
	}
}

func oneLine(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }

// describe is the comment of a type (goField empty) or of one of its fields, without the leading Go name.
func describe(t reflect.Type, goField string) string {
	key, name := t.Name(), t.Name()
	if goField != "" {
		key, name = key+"."+goField, goField
	}
	text := strings.TrimPrefix(comments()[key], name+" ")
	for _, verb := range []string{"is ", "are ", "says "} {
		if rest, ok := strings.CutPrefix(text, verb); ok && verb != "says " {
			text = rest
			break
		}
	}
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
