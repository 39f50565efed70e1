package schema

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"sync"

	"github.com/rayctl/rayctl/launcher/spec"
)

// comments maps the package, Type and Type.Field to the comment, on one line.
var comments = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for pkg, source := range spec.Sources() {
		f, err := parser.ParseFile(token.NewFileSet(), pkg, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			panic(err) // embedded by that package
		}
		collectComments(f, pkg+".", out)
	}
	return out
})

func collectComments(f *ast.File, pkg string, out map[string]string) {
	for _, decl := range f.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.TYPE {
			continue
		}
		for _, sp := range gen.Specs {
			ts := sp.(*ast.TypeSpec)
			out[pkg+ts.Name.Name] = oneLine(gen.Doc)
			st, ok := ts.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range st.Fields.List {
				for _, n := range f.Names {
					out[pkg+ts.Name.Name+"."+n.Name] = oneLine(f.Doc)
				}
			}
		}
	}
}

func oneLine(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }

// describe is the comment of a type (goField empty) or of one of its fields, without the leading Go name.
func describe(t reflect.Type, goField string) string {
	key, name := t.PkgPath()+"."+t.Name(), t.Name()
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
