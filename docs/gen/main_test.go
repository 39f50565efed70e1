package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPagesAreFresh compares what is committed with what the code generates now.
func TestPagesAreFresh(t *testing.T) {
	for _, p := range pages {
		want, err := p.write("..")
		if err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		got, err := os.ReadFile(filepath.Join("..", p.name))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("docs/%s is stale; run `make docs`:\n%s", p.name, d)
		}
	}
}

func TestCell(t *testing.T) {
	if got, want := cell("a|b <c> *d* RAYCTL_OUTPUT_DIR"), "a\\|b &lt;c> \\*d\\* `RAYCTL_OUTPUT_DIR`"; got != want {
		t.Errorf("%q", got)
	}
}

// TestMessages checks which strings count as sentences for users.
func TestMessages(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "a.go", `package a
import "some/long path"
func f(name string) error {
	log.Debug("for developers only")
	run("set -e; if [ x ]; then exit; fi", "word")
	return fail("no cluster "+name+" is there", "give another\n name")
}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	writeMessages(&b, "a", append(fileMessages(file), "give another name"))
	if got, want := b.String(), "\n## a\n\n- give another name\n- no cluster … is there\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
