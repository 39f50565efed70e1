package cmd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestOnlyOneFileNamesLaunchers holds that a launcher is added by one line: outside the launchers' packages only launchers.go imports one, and no program
// text has a launcher's name as a value or a key of its section, but advise's, which is about choosing one, and files/translate's, which reads files of Slurm and KubeRay. The number of places is 0; prose for people may speak of Slurm and Kubernetes. keeper/tests/test_names.py
// holds the same for the keeper's Python.
func TestOnlyOneFileNamesLaunchers(t *testing.T) {
	for _, dir := range []string{".", "../launcher", "../dashboardclient", "../docs"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "app/apptest/") || strings.HasPrefix(path, "advise/") || strings.HasPrefix(path, "files/translate/") || path == "launchers.go" {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				literal, ok := n.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Error(err)
				}
				for _, s := range substrates {
					key := regexp.MustCompile(`(^|[^A-Za-z0-9_/.-])` + regexp.QuoteMeta(s.Name) + `\.[A-Za-z%]`) // not docs/NAME.md
					if text == s.Name || key.MatchString(text) || strings.HasPrefix(text+"/", "github.com/rayctl/rayctl/"+s.Name+"/") {
						t.Errorf("%s names the launcher %s: %s", path, s.Name, literal.Value)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
