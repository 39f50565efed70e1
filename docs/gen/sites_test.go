package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// siteTest is how a row of sites.md names a test: `folder` TestName/subtest, `folder` test_name.py, or `folder` "scenario"; of the folder before where it names none.
// A remark in parentheses may follow.
var siteTest = regexp.MustCompile("^(?:`([\\w/]+)` )?(?:(Test\\w+)((?:/[\\w.]+)*)|(test_\\w+\\.py)|\"([^\"]+)\")(?: \\([^()]+\\))?$")

// betweenTests separates them.
var betweenTests = regexp.MustCompile("(?:, |; )(`|Test|test_)")

// namesOfSubtests are where names of subtests may be besides the files of the test's folder: versions of Slurm.
var namesOfSubtests = []string{"test/slurmtest/options.go"}

// anyVersion stands for the name of a subtest that each version of Slurm has.
const anyVersion = "VERSION"

// TestSites: each row of sites.md names tests that are there, with their subtests.
func TestSites(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "sites.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| site feature ") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "|\n "), " | ")
		if len(cells) != 3 {
			t.Errorf("%d cells, not 3: %s", len(cells), line)
			continue
		}
		if err := findTests(cells[2]); err != nil {
			t.Errorf("%v: %s", err, line)
		}
	}
	if rows < 10 {
		t.Errorf("%d rows", rows)
	}
}

// TestFindTests: what is not there is found, whichever part of the name it is.
func TestFindTests(t *testing.T) {
	for cell, want := range map[string]string{
		"`docs/gen` TestSites": "",
		"`slurm` TestNodes/In_pyxis, TestLimits/Doctor (a remark)": "",
		"`slurm` TestEachVersion/VERSION/REST":                     "",
		"`keeper` test_look.py":                                    "",
		"`launcher/conformance` \"elastic group\"":                 "",
		"`slurm` TestNosuch":                                       "no TestNosuch in slurm",
		"`slurm` TestNodes/Nosuch":                                 "no subtest Nosuch in TestNodes of slurm",
		"`slurm` TestNodes/In_pyxis/Nosuch":                        "no subtest Nosuch in TestNodes of slurm",
		"`slurm` TestNodes/DrainedNodes":                           "no subtest DrainedNodes in TestNodes of slurm", // another test has it
		"`keeper` test_nosuch.py":                                  "no test_nosuch.py in keeper",
		"`launcher/conformance` \"no such scenario\"":              "no scenario \"no such scenario\" in launcher/conformance",
		"TestSites": "no folder",
		"`slurm` TestElasticFaults/NodeDies, Cancelled": "is not the name of a test",
		"the conformance suite":                         "is not the name of a test",
	} {
		err := findTests(cell)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", cell, err, want)
		}
	}
}

// findTests looks for all tests that a cell names.
func findTests(cell string) error {
	folder := ""
	for item := range strings.SplitSeq(betweenTests.ReplaceAllString(cell, "\n$1"), "\n") {
		m := siteTest.FindStringSubmatch(item)
		if m == nil {
			return fmt.Errorf("%q is not the name of a test", item)
		}
		if m[1] != "" {
			folder = m[1]
		}
		if folder == "" {
			return fmt.Errorf("no folder before %q", item)
		}
		if err := findTest(folder, m[2], m[3], m[4], m[5]); err != nil {
			return err
		}
	}
	return nil
}

// findTest looks for a test in a folder: a function of Go and the names of its subtests, a file of Python's, or a scenario.
func findTest(folder, function, subtests, file, scenario string) error {
	switch {
	case file != "":
		if found, _ := filepath.Glob(filepath.Join("..", "..", folder, "tests", "*", file)); len(found) == 0 {
			return fmt.Errorf("no %s in %s", file, folder)
		}
		return nil
	case scenario != "":
		if !strings.Contains(sources(folder, "*.go"), fmt.Sprintf("%q", scenario)) {
			return fmt.Errorf("no scenario %q in %s", scenario, folder)
		}
		return nil
	}
	text := reachedBy(function, folder)
	if text == "" {
		return fmt.Errorf("no %s in %s", function, folder)
	}
	for _, name := range namesOfSubtests {
		text += sources(filepath.Dir(name), filepath.Base(name))
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(subtests, "/"), "/") {
		literals := []string{fmt.Sprintf("%q", name), fmt.Sprintf("%q", strings.ReplaceAll(name, "_", " "))} // Go writes a space as _
		if name != "" && name != anyVersion && !slices.ContainsFunc(literals, func(l string) bool { return strings.Contains(text, l) }) {
			return fmt.Errorf("no subtest %s in %s of %s", name, function, folder)
		}
	}
	return nil
}

// reachedBy is the source of a test function of a folder, with all declarations of the folder's tests that it names, and that these name; "" if there is no such test.
// Methods are known by their names alone.
func reachedBy(function, folder string) string {
	declared, files := map[string][]ast.Node{}, token.NewFileSet()
	paths, _ := filepath.Glob(filepath.Join("..", "..", folder, "*_test.go")) // the pattern is a good one
	source := map[string][]byte{}
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		if err != nil {
			continue // it does not compile, either
		}
		source[path] = text
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				declared[d.Name.Name] = append(declared[d.Name.Name], d)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if values, is := s.(*ast.ValueSpec); is {
						for _, name := range values.Names {
							declared[name.Name] = append(declared[name.Name], s)
						}
					}
				}
			}
		}
	}
	var b strings.Builder
	seen, next := map[string]bool{}, []string{function}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, d := range declared[name] {
			from, to := files.Position(d.Pos()), files.Position(d.End())
			b.Write(source[from.Filename][from.Offset:to.Offset])
			ast.Inspect(d, func(n ast.Node) bool {
				if used, is := n.(*ast.Ident); is && !strings.HasPrefix(used.Name, "Test") {
					next = append(next, used.Name)
				}
				return true
			})
		}
	}
	return b.String()
}

// sources are the files of a folder, one after the other; "" if there are none.
func sources(folder, pattern string) string {
	var b strings.Builder
	files, _ := filepath.Glob(filepath.Join("..", "..", folder, pattern)) // the pattern is a good one
	for _, file := range files {
		text, _ := os.ReadFile(file) // what cannot be read has no test
		b.Write(text)
	}
	return b.String()
}
