package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const messagesIntro = `# Messages

Made from code by ` + "`make docs`" + `: every sentence in the product's sources that a user may see, by package, so that they can be read in one place. ` + "`%s`" + ` and the like
stand for values, … for a part that is put in between. Lines of ` + "`-v`" + ` and what only a bug prints are left out.
`

// notProduct are directories whose sentences no user sees.
var notProduct = []string{"test", "docs", "scripts", "launcher/conformance", "cmd/app/apptest", "keeper/tests"}

// silent are functions whose text is for developers: lines of -v, panics and lookups.
var silent = map[string]bool{"Debug": true, "panic": true, "Contains": true, "HasPrefix": true, "HasSuffix": true, "Cut": true, "MustCompile": true, "Index": true, "TrimPrefix": true, "TrimSuffix": true}

// sentence matches text for people: two words.
var sentence = regexp.MustCompile(`[A-Za-z]{2}[,:;.)]* [("]?[A-Za-z%]`)

// code matches text for shells, other programs and formats.
var code = regexp.MustCompile(`\$[({a-z0-9@*#?]|["=]\$|^(command|exec|export|import|printf|read|set|sh|unset) -|\b(if|while|for|until)\b.*; (then|do)\b|; (do|fi|done)\b|^#!|&&|\|\||^(import|def) |application/|charset=|[{};]\n|[\x00-\x08\x0b-\x1f\x7f]|^[a-z_]+_[a-z_]+( [a-z_]+)+$`)

// quotedCommand matches a command line in a sentence, and ownCommand begins one of rayctl's, as in examples.
var (
	quotedCommand = regexp.MustCompile("`[^`]*`")
	ownCommand    = regexp.MustCompile(`^(rayctl [a-z]|[a-z]+=\$\(rayctl |eval "\$\(rayctl )`)
)

// isForPeople reports whether a text is a sentence or an example for users.
func isForPeople(text string) bool {
	return sentence.MatchString(text) && (ownCommand.MatchString(text) || !code.MatchString(quotedCommand.ReplaceAllString(text, "")))
}

//go:embed messages.py
var pythonMessages string

// messages writes all sentences for users, by package.
func messages(dir string) ([]byte, error) {
	root := filepath.Join(dir, "..")
	found, err := goMessages(root)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(messagesIntro)
	var packages []string
	for name := range found {
		packages = append(packages, name)
	}
	slices.Sort(packages)
	for _, name := range packages {
		writeMessages(&b, name, found[name])
	}
	c := exec.CommandContext(context.Background(), "python3", "-c", pythonMessages, filepath.Join(root, "keeper", "rayctl_keeper"))
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("read the keeper's messages: %w", err)
	}
	writeMessages(&b, "keeper (Python)", strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"))
	return b.Bytes(), nil
}

// writeMessages writes each sentence once; a package without any has no section.
func writeMessages(b *bytes.Buffer, name string, texts []string) {
	var lines []string
	for _, text := range texts {
		text = strings.Join(strings.Fields(text), " ")
		if isForPeople(text) {
			lines = append(lines, "- "+strings.NewReplacer("<", "&lt;", "*", "\\*", "_", "\\_").Replace(text)+"\n")
		}
	}
	if slices.Sort(lines); len(lines) > 0 {
		fmt.Fprintf(b, "\n## %s\n\n%s", name, strings.Join(slices.Compact(lines), ""))
	}
}

// goMessages maps a package's directory to its sentences.
func goMessages(root string) (map[string][]string, error) {
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (slices.Contains(notProduct, name) || (strings.HasPrefix(d.Name(), ".") && len(name) > 1)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if texts := fileMessages(file); len(texts) > 0 {
			found[filepath.Dir(name)] = append(found[filepath.Dir(name)], texts...)
		}
		return nil
	})
	return found, err
}

// fileMessages are the texts of a file.
func fileMessages(file *ast.File) []string {
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.Field:
			return false
		case *ast.CallExpr:
			return !silent[called(n)]
		case *ast.BinaryExpr:
			if n.Op != token.ADD {
				return true
			}
			if text, ok := joined(n); ok {
				out = append(out, text)
				return false
			}
		case *ast.BasicLit:
			if text, ok := joined(n); ok {
				out = append(out, text)
			}
		}
		return true
	})
	return out
}

func called(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// joined is the text of a string, or of strings put together; ok is false for other expressions.
func joined(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "…", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, leftOK := joined(e.X)
		right, rightOK := joined(e.Y)
		return left + right, leftOK || rightOK
	}
	return "…", false
}
