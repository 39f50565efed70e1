package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEnvFile: lines, comments and quotes as in .env files; --env and an unreadable file.
func TestEnvFile(t *testing.T) {
	const file = "# a comment\n\nA=plain # and a comment\nexport B=\"two\\nlines\"\nC='$(id) \"x\" # no comment'\nD=\nE=from the file\nF=a=b\nAPI_KEY=k1\nDB_PASSWORD='p$x'\n"
	f := newFixture(t, map[string]string{"rayctl.yaml": "name: a\njob: {env: {A: of the cluster file, Z: kept}}\n", ".env": file})
	l := f.must("", "--env", "E=from --env", "--env-file", ".env")
	want := map[string]string{
		"A": "plain", "B": "two\nlines", "C": `$(id) "x" # no comment`, "D": "", "E": "from --env", "F": "a=b", "Z": "kept", "API_KEY": "k1", "DB_PASSWORD": "p$x",
	}
	if d := cmp.Diff(want, l.Spec.Job.Env); d != "" {
		t.Error(d)
	}
	if from := l.Origins.of("job.env.B"); !strings.HasSuffix(from, "--env-file") {
		t.Errorf("from %q", from)
	}
	const told = "--env-file API_KEY, DB_PASSWORD: Ray shows the environment of a job"
	if len(l.Warnings) != 1 || !strings.HasPrefix(l.Warnings[0], told) {
		t.Errorf("warnings %q, want %q", l.Warnings, told)
	}
	_, err := newFixture(t, map[string]string{"bad.env": "hunter2 has no name\n"}).load("", "--env-file", "bad.env")
	if err == nil || !strings.Contains(err.Error(), "bad.env is not a file of lines NAME=VALUE: write") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
	f = newFixture(t, nil)
	f.fails("--env-file: nosuch.env cannot be read: no such file or directory: give a file of lines NAME=VALUE", "", "--env-file", "nosuch.env")
}
