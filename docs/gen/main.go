// Command gen writes what is made from code, mostly pages of docs/: `go run ./docs/gen` in the repository's root (make docs).
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// page is a generated file.
type page struct {
	name  string                           // below docs/
	write func(dir string) ([]byte, error) // dir is docs/
}

const codesPage = "exit-codes.md"

// pages are all generated files.
var pages = []page{
	{"cluster-file.md", clusterFile},
	{"commands.md", commands},
	{codesPage, exitCodes},
	{"recipes.md", recipes},
	{"../keeper/rayctl_keeper/state/model.py", pythonModel},
	{"../python/rayctl/answers.py", pythonTypes},
}

func main() {
	if err := run("docs"); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run writes the files that changed.
func run(dir string) error {
	for _, p := range pages {
		b, err := p.write(dir)
		if err != nil {
			return fmt.Errorf("write %s: %w", p.name, err)
		}
		path := filepath.Join(dir, p.name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, b) {
			continue
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
