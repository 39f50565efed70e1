package translate

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// values are the variables of the script whose values it says itself.
type values map[string]string

// known is a word's text; false if only a run of the script knows it.
func (v values) known(w *syntax.Word) (string, bool) {
	if w == nil {
		return "", true
	}
	ok := !strings.HasPrefix(w.Lit(), "~")
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ArithmExp, *syntax.ExtGlob, *syntax.BraceExp:
			ok = false
		case *syntax.ParamExp:
			ok = ok && v.plain(n)
		}
		return ok
	})
	if !ok {
		return "", false
	}
	text, err := expand.Literal(&expand.Config{Env: expand.FuncEnviron(func(name string) string { return v[name] })}, w)
	return text, err == nil
}

// plain reports whether an expansion is a known variable as it is.
func (v values) plain(p *syntax.ParamExp) bool {
	_, is := v[nameOf(p)]
	return is && !p.Excl && !p.Length && p.Index == nil && p.Slice == nil && p.Repl == nil && p.Names == 0 && (p.Exp == nil || p.Exp.Op == syntax.DefaultUnsetOrNull && v[nameOf(p)] != "")
}

func nameOf(p *syntax.ParamExp) string {
	if p.Param == nil {
		return ""
	}
	return p.Param.Value
}

// harmless is text that means itself for a shell, in double quotes and outside.
var harmless = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]*$`)

// replace writes known variables into the words below a node, and returns the names of those and of the others.
func (v values) replace(node syntax.Node) (replaced, others []string) {
	parts := func(list []syntax.WordPart) {
		for i, part := range list {
			p, is := part.(*syntax.ParamExp)
			if !is {
				continue
			}
			name := nameOf(p)
			if v.plain(p) && harmless.MatchString(v[name]) {
				list[i] = &syntax.Lit{ValuePos: p.Pos(), ValueEnd: p.End(), Value: v[name]}
				replaced = appendNew(replaced, name)
			}
		}
	}
	syntax.Walk(node, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Word:
			parts(n.Parts)
		case *syntax.DblQuoted:
			parts(n.Parts)
		}
		return true
	})
	return replaced, variables(node)
}

// variables are the names of the variables that a node uses.
func variables(node syntax.Node) (names []string) {
	syntax.Walk(node, func(n syntax.Node) bool {
		if p, is := n.(*syntax.ParamExp); is {
			names = appendNew(names, nameOf(p))
		}
		return true
	})
	return names
}

func appendNew(list []string, item string) []string {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}

// printed is a node as shell text, without its comments.
func printed(n syntax.Node) string {
	var out bytes.Buffer
	if err := syntax.NewPrinter(syntax.SingleLine(true)).Print(&out, n); err != nil {
		return ""
	}
	return strings.TrimSpace(out.String())
}

// splitCommand parses the text of a command, such as one that a shell gets after -c, into statements; nil if it is none.
func splitCommand(text string) []*syntax.Stmt {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil
	}
	return f.Stmts
}
