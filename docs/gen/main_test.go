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
func TestIsForPeople(t *testing.T) {
	for text, want := range map[string]bool{
		"drivers write results to $RAYCTL_OUTPUT_DIR": true, "give --name, without which every run is new": true, "`eval \"$(rayctl env %s)\"` sets it": true,
		"in a shell with `eval \"$(rayctl env NAME)\"` start jupyter": true, "`rayctl status …` shows whether it lives; then try again": true,
		"rayctl up && rayctl submit -- python a.py && rayctl down": true, "eval \"$(rayctl env dev)\" && ray job list": true,
		"correct slurm.account; `sacctmgr show assoc user=$USER` lists yours": true, "name $SLURM_JOB_ID, $USER and $TMPDIR only": true,
		"set -gx PATH $RAYCTL_ENV_BIN more words": false, "if ! type module >/dev/null; then path=$PATH; fi": false, "printf %s it; exec \"$@\"": false,
		"[ -z \"${A-}\" ] || export that thing": false, "num_cpus num_gpus memory": false, "import os, sys": false,
	} {
		if isForPeople(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

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
