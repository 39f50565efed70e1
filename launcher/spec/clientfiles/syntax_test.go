package clientfiles_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/clientfiles"
)

// wrongLines are lines that no installer takes, with what rayctl says of them.
var wrongLines = map[string]string{
	"six==":                     `"six==" lacks a version: write it behind the ==`,
	"six>=1,<":                  `"six>=1,<" lacks a version: write it behind the <`,
	"six=1.0":                   `"six=1.0" has one =: write == before a version`,
	"numpy=1.26=py311_0":        `has one =: write == before a version`,
	"foo bar":                   `"foo bar" goes on with "bar" behind the package, which is no version: write a package as in numpy>=1.26,<3, one on a line`,
	"six>=1 extra":              `goes on with ">=1 extra"`,
	"six: 1":                    `goes on with ": 1"`,
	"six:1":                     `goes on with ":1"`,
	"six>=1,,<2":                `goes on with ">=1,,<2"`,
	"six[":                      `has a list in [ ] that is not right: write extras as in ray[tune,serve]`,
	"ray[tune":                  `has a list in [ ]`,
	"ray[tune serve]":           `has a list in [ ]`,
	"six @":                     `has no address behind @`,
	"==1.0":                     `does not begin with the name of a package`,
	"six; python_version >":     `has a condition behind ; that is not right: write it as in ; python_version < "3.13"`,
	"six; python_version":       `has a condition behind ;`,
	`six; (python_version<"3"`:  `has a condition behind ;`,
	`six; python_version < "3`:  `has a condition behind ;`,
	`six; os_name == "a" and`:   `has a condition behind ;`,
	"- six":                     `has a - of a YAML list before it: leave it out`,
	`"six"`:                     `is in quotes: leave them out`,
	"-e":                        `has nothing behind -e: write there what it is about`,
	"--index-url =":             `has nothing behind --index-url`,
	"<<<<<<< HEAD":              `does not begin with the name of a package`,
	"import numpy":              `goes on with "numpy"`,
	"six==1 'ü' `id` \x1b[31m;": `goes on with`,
}

// rightLines are lines that some installer takes.
var rightLines = []string{
	"six", "six==1.0", "six == 1.0 , != 1.1", "six;", "six (>=1.0,<2)", "six(==1)", "six~=1.4.2", "six===any.thing_1", "six==1.*", "torch==2.1.0+cu118", "six>=2.0rc1", "six>1!2.0", "a_b.c-d>=v1.0",
	"ray[tune]", "ray [ tune , serve ] >= 2.9", "ray[]", "six==1.0;python_version<'3.13'", `six ; python_version >= "3.9" and (sys_platform == "linux" or platform_machine != 'arm64')`,
	`six; "linux" in sys_platform`, `six; python_version not in "2.7, 3.0"`, `six; extra == "a b"`, `six; ((os_name=="posix"))`, "name @ https://example.org/x.whl", "name[a]@https://example.org/x.zip",
	`name @ https://example.org/x.whl ; python_version < "4"`,
}

// otherLines are what requirements files have beside packages by name.
var otherLines = []string{
	"six>=1,", "six==1.0 --hash=sha256:00 --hash=sha256:11", "six --config-settings x", "--pre", "--index-url https://example.org/simple", "-i https://example.org/simple", "--some-new-option", "-e git+https://example.org/a.git@main#egg=a",
	"git+ssh://git@example.org/a.git", "https://example.org/a.whl", "file:a.whl", "${HOME}/a.whl", "/abs/a.whl", "~/a.whl", "six==$VERSION", "-f /wheels", "# six==", "", "six\fother\u0085third", "\ufeffsix==1.0", "six \\\n  ==1.0", "six # it is = right",
}

// TestWrongLines: a line that no installer takes is refused with its file and line, in each place where lines are; all others pass.
func TestWrongLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	said := func(line string) (job, environment, listed error) {
		file := filepath.Join(dir, "r.txt")
		writeAll(t, dir, map[string]string{"r.txt": "\n\n# c\r\n" + line + "\nlast\n"})
		in := spec.Requirements{File: file, Dir: dir}
		list := &spec.Job{RuntimeEnv: spec.Object{"pip": map[string]any{"packages": []any{"first", line}}}}
		return clientfiles.ReadJob(&spec.Job{Pip: in}, dir, clientfiles.Nodes{Shared: true}), clientfiles.Environment("job.pip", &in), clientfiles.ReadJob(list, dir, clientfiles.Nodes{Shared: true})
	}
	for line, want := range wrongLines {
		job, environment, listed := said(line)
		for _, err := range []error{job, environment} {
			if err == nil || !strings.HasPrefix(err.Error(), "job.pip: "+dir+"/r.txt:4: ") || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%q: %v", line, err)
			}
		}
		if listed == nil || !strings.HasPrefix(listed.Error(), "job.runtimeEnv.pip: ") || !strings.Contains(listed.Error(), want) {
			t.Errorf("%q in a list: %v", line, listed)
		}
	}
	for _, line := range append(rightLines, otherLines...) {
		job, environment, listed := said(line)
		if job != nil || environment != nil || listed != nil {
			t.Errorf("%q: %v, %v, %v", line, job, environment, listed)
		}
	}
}

// TestLinesOfPip: pip's own parser takes those that are right, and refuses those that are wrong.
func TestLinesOfPip(t *testing.T) {
	t.Parallel()
	const program = `import json, sys
from pip._internal.req.constructors import install_req_from_line as parse
def takes(line):
    try: return parse(line).req is not None
    except Exception: return False
print(json.dumps([takes(line) for line in json.load(sys.stdin)]))`
	var lines []string
	for line := range wrongLines {
		if !strings.HasPrefix(line, "-") && !strings.HasSuffix(line, "==") && !strings.HasSuffix(line, "<") { // options; the parser of pip 23 takes the others, and finds no version then
			lines = append(lines, line)
		}
	}
	right := len(lines)
	lines = append(lines, rightLines...)
	asked, err := json.Marshal(lines)
	if err != nil {
		t.Fatal(err)
	}
	pip := exec.Command("python3", "-I", "-c", program)
	pip.Stdin = bytes.NewReader(asked)
	out, err := pip.Output()
	var taken []bool
	if err == nil {
		err = json.Unmarshal(out, &taken)
	}
	if err != nil || len(taken) != len(lines) {
		t.Fatalf("%v: %s", err, out)
	}
	for i, line := range lines {
		if taken[i] != (i >= right) {
			t.Errorf("%q: pip takes it: %t", line, taken[i])
		}
	}
}
