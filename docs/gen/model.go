package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// names are the classes of the keeper's Python that have the constants of package runstate. The constants of a class have the type, or in Go the prefix.
var names = []struct{ class, kind, prefix, doc string }{
	{"Phase", "Phase", "", "Phases of a cluster."},
	{"Cause", "", "Cause", "Causes of the end of a cluster, or of an attempt."},
	{"Origin", "", "Origin", "Whose exit code the exit has."},
	{"JobState", "JobState", "Job", "States of the driver and of job.prepare: Ray's own, and those before the submission."},
	{"NodeState", "", "Node", "States of a node: Ray's ALIVE and DEAD, and rayctl's own."},
	{"AllocationState", "", "Allocation", "States of an allocation."},
	{"Purpose", "", "Purpose", "Purposes of an allocation."},
	{"Event", "", "Event", "Kinds of events that the client uses."},
	{"Reason", "", "Reason", "Codes of reasons that the client uses."},
}

// pythonModel is what the keeper's Python knows of package runstate.
func pythonModel(dir string) ([]byte, error) {
	classes, err := pythonNames(filepath.Join(dir, "../launcher/runstate"))
	if err != nil {
		return nil, err
	}
	var codes, retryable, restarts []string
	for _, c := range runstate.Causes {
		name := classes.of["Cause"][c.Name]
		if c.Restarts != "" {
			restarts = append(restarts, fmt.Sprintf("    %s: %q,\n", name, c.Restarts))
		}
		if c.Origin != "" {
			continue
		}
		codes = append(codes, fmt.Sprintf("    %s: %d,\n", name, c.Code))
		if c.Retryable {
			retryable = append(retryable, name)
		}
	}
	return fmt.Appendf(nil, `"""The words of a run's model. Made from launcher/runstate by "make docs"."""
%s

# Exit codes of "rayctl run" by the cause of the end, where the code is not a program's own.
CODES = {
%s}
UNKNOWN_CAUSE = %d
# Causes after which the same command may succeed if it is repeated.
RETRYABLE = (%s)
# The keys of job.restarts, each by the cause of the ends that it allows an attempt after.
RESTARTS = {
%s}
# How a keeper's sentence begins when a signal ended it.
SIGNALLED = %q
# How the message of a node's event begins that was lost and started again before Ray had seen its loss.
STARTED_AGAIN = %q
`, classes.text, strings.Join(codes, ""), runstate.CodeInternal, strings.Join(retryable, ", "), strings.Join(restarts, ""), runstate.Signalled, runstate.StartedAgain), nil
}

// pythonClasses are the classes of names: their text, and of each class how Python writes a value.
type pythonClasses struct {
	text string
	of   map[string]map[string]string
}

// pythonNames reads the constants of the package in a directory.
func pythonNames(dir string) (found pythonClasses, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return found, err
	}
	lines, capital := map[string]string{}, regexp.MustCompile("([a-z])([A-Z])")
	found.of = map[string]map[string]string{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return found, err
		}
		for _, c := range constants(file) {
			for _, n := range names {
				short, has := strings.CutPrefix(c.name, n.prefix)
				if c.kind != n.kind || !has {
					continue
				}
				short = strings.ToUpper(capital.ReplaceAllString(short, "${1}_$2"))
				lines[n.class] += fmt.Sprintf("    %s = %q\n", short, c.value)
				if found.of[n.class] == nil {
					found.of[n.class] = map[string]string{}
				}
				found.of[n.class][c.value] = n.class + "." + short
			}
		}
	}
	for _, n := range names {
		found.text += fmt.Sprintf("\n\nclass %s:\n    \"\"\"%s\"\"\"\n%s", n.class, n.doc, lines[n.class])
	}
	return found, nil
}

// constant is one of a file; kind is its type, if that is named.
type constant struct{ name, kind, value string }

// constants are the exported ones of a file that are strings.
func constants(file *ast.File) (found []constant) {
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, s := range decl.Specs {
			spec := s.(*ast.ValueSpec)
			if len(spec.Values) != 1 || !spec.Names[0].IsExported() {
				continue
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				continue
			}
			c := constant{name: spec.Names[0].Name, value: value}
			if kind, ok := spec.Type.(*ast.Ident); ok {
				c.kind = kind.Name
			}
			found = append(found, c)
		}
	}
	return found
}

// exitCodes puts the tables of exit codes and causes between their marks in a page that is otherwise written by hand.
func exitCodes(dir string) ([]byte, error) {
	page, err := os.ReadFile(filepath.Join(dir, codesPage))
	if err != nil {
		return nil, err
	}
	var codes, causes strings.Builder
	for _, c := range runstate.ExitCodes {
		fmt.Fprintf(&codes, "| %d | %s |\n", c.Code, c.Meaning)
	}
	for _, c := range runstate.Causes {
		code, again := "the driver's", "no"
		switch c.Origin {
		case "":
			code = fmt.Sprint(c.Code)
		case runstate.OriginPrepare:
			code = "the command's"
		}
		if c.Retryable {
			again = "yes"
		}
		fmt.Fprintf(&causes, "| `%s` | %s | %s | %s |\n", c.Name, code, again, c.Meaning)
	}
	page, err = between(page, "exit codes", "| code | meaning |\n|---|---|\n"+codes.String())
	if err != nil {
		return nil, err
	}
	return between(page, "causes", "| cause | exit code | retryable | meaning |\n|---|---|---|---|\n"+causes.String())
}

// between replaces what stands between the marks of a name.
func between(page []byte, name, text string) ([]byte, error) {
	from, to := "<!-- made by make docs: "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, begins := bytes.Cut(page, []byte(from))
	_, after, ends := bytes.Cut(rest, []byte(to))
	if !begins || !ends {
		return nil, fmt.Errorf("%s has no marks for %q", codesPage, name)
	}
	return []byte(string(before) + from + text + to + string(after)), nil
}
