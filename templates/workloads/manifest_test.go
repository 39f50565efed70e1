package workloads

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"
)

const small = "version: 1\ntitle: t\nfor: a test\n"

func TestManifestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"title: t\n":         "template.yaml: the version of its format is missing: begin it with version: 1",
		"version: 2\nnew: 1": "template.yaml: its format has the version 2: another rayctl may know it; this one knows version 1",
		small + "nosuch: 1":  `line 4: unknown key "nosuch": ` + formatHint,
		small + "parameters: [{name: n, typ: int}]": `unknown key "typ"`,
		small + "---\n" + small:                     "more than one document",
		"version: 1\n":                              "title is what lists show",
		small + "place: /etc":                       `place "/etc" is not a folder below`,
		small + "place: a/../../b":                  `place "a/../../b" is not`,
		small + "place: .git/hooks":                 `place ".git/hooks" is not`,
		small + "group: best":                       `group "best" is none of start, rl, ray, ci`,
		small + "launchers: [aws]":                  `launcher "aws" is none of`,
		small + "next: [{}]":                        "neither run nor say",
		small + "parameters: [{name: N, type: int, default: 1, help: h}]":                                                  "begins with a small letter",
		small + "parameters: [{name: name, type: int, default: 1, help: h}]":                                               "there are two parameters name",
		small + "parameters: [{name: n, type: float, default: 1, help: h}]":                                                `type "float" is none of`,
		small + "parameters: [{name: n, type: int, default: 0, help: h}]":                                                  `the default does not fit: n cannot be "0"`,
		small + "parameters: [{name: n, type: int, help: h}]":                                                              "the default is missing",
		small + "parameters: [{name: n, type: string, default: x, pattern: '(', help: h}]":                                 "the pattern is none",
		small + "parameters: [{name: n, type: choice, default: x, help: h}]":                                               "a choice has choices",
		small + "parameters: [{name: n, type: int, default: 1, help: h}]\nchecks: [{atMost: [n, m], says: s}]":             `and "m" is not: "m"`,
		small + "parameters: [{name: n, type: int, default: 1, help: h}]\nchecks: [{atMost: [n, '--'], says: s}]":          `and "--" is not: "--"`,
		small + "parameters: [{name: n, type: int, default: 3, help: h}]\nchecks: [{atMost: [n, '2'], says: s}]":           "the defaults do not fit: n = 3 is more than 2 = 2, but s",
		small + "parameters: [{name: n, type: int, default: 3, help: h}]\nchecks: [{says: s}]":                             "a check has one of divides, atMost and equal",
		small + "parameters: [{name: n, type: int, default: 3, help: h}]\nchecks: [{equal: [n, '3'], when: x=1, says: s}]": "x, which is no parameter",
		small + "parameters: [{name: n, type: int, default: 3, help: h}]\nchecks: [{divides: ['0', n], says: s}]":          "is not divisible by 0",
		small + "parameters: [{name: n, type: int, default: 1, when: x=1, help: h}]":                                       "parameter n is for a value of x, which is no parameter",
		small + "parameters: [{name: n, type: string, default: a, option: b, help: h}]":                                    "only an int has an option",
		small + "launchers: [local]\nparameters: [{name: launcher, type: int, default: 3, help: h}]":                       "there are two parameters launcher",
		"version: 1\n\ttitle: x": "line 2: found a tab character",
	} {
		_, err := readManifest("x", ManifestName, []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// sized is a template with a check.
func sized(t *testing.T) *Manifest {
	t.Helper()
	m, err := readManifest("sized", ManifestName, []byte(small+`launchers: [slurm, kuberay]
parameters:
  - {name: nodes, type: int, default: 2, max: 64, help: h}
  - {name: gpus, type: int, default: 8, help: h}
  - {name: batch, type: int, default: 64, help: h}
  - {name: engine, type: choice, choices: [vllm, sglang], default: vllm, help: h}
  - {name: keep, type: bool, default: true, help: h}
  - {name: model, type: string, default: a/b, pattern: "[a-z/]+", help: h}
  - {name: text, type: string, default: "", help: h}
checks:
  - {divides: [nodes * gpus, batch], says: each GPU gets the same}
  - {atMost: [gpus + 1, "9"], when: engine=sglang, says: one is spare}
`))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestValues(t *testing.T) {
	m := sized(t)
	for set, want := range map[string]string{
		"":                                  "",
		"nodes=4":                           "",
		"launcher=k8s":                      `launcher cannot be "k8s"`, // only a program with this launcher knows its other names
		"nodes":                             `--set "nodes" has no value: write it as KEY=VALUE`,
		"node=1":                            `template sized has no parameter "node": did you mean nodes?`,
		"xyzzy=1":                           `it has nodes, gpus, batch, engine, keep, model, text, name, launcher`,
		"nodes=65":                          `nodes cannot be "65": give a whole number from 1 to 64`,
		"nodes=1e3":                         `nodes cannot be "1e3"`,
		"nodes=99999999999999999999":        "give a whole number from 1 to 64",
		"engine=vlm":                        `engine cannot be "vlm": did you mean vllm? It takes vllm, sglang`,
		"keep=maybe":                        "give true or false",
		"model=a/b;c":                       "give text like a/b",
		"text=a\nb":                         "it is one line of text",
		"text=a\u2028b":                     "it is one line of text",
		"text=\xff":                         "it is one line of text",
		"text=" + strings.Repeat("x", 5000): "it has at most 4096 bytes",
		"name=Not A Name":                   `name cannot be "Not A Name": use at most 40`,
		"batch=70":                          "batch = 70 is not divisible by nodes * gpus = 16, but each GPU gets the same: give --set batch=64 or --set batch=80",
		"batch=3":                           "give --set batch=16",
		"gpus=9,engine=vllm,batch=18":       "",
		"gpus=9,engine=sglang,batch=18":     "gpus + 1 = 10 is more than 9 = 9, but one is spare: give --set gpus=3", // with 8 the batch would be uneven
		"gpus=1000000":                      "batch = 64 is not divisible by nodes * gpus = 2000000, but each GPU gets the same: set other values with --set",
		"nodes=3,batch=1":                   "give --set batch=24",
	} {
		var pairs []string
		if set != "" {
			pairs = strings.Split(set, ",")
		}
		values, err := m.Values(pairs, "project")
		if err == nil {
			err = m.CheckValues(values)
		}
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%q: %v, want %q", set, err, want)
		}
	}
}

// hostile are values that would be something else if one language did not quote them.
var hostile = []string{
	`$(touch x)`, "`touch x`", `"; touch x; "`, `'; touch x; '`, `[[ .name ]]`, `{{ .name }}`, `a: b`, `a #b`, `- a`, `}, {x: y`, `null`, `yes`, `1`, `1e3`, `0x1`, `12:30`, `2026-11-29`, `~`, `*a`, `&a`, `!x`, `%x`,
	`\`, `\n`, `'`, `"`, `'''`, ``, ` a `, `a:`, `a,b`, `|`, `>`, `@a`, `<b>&`, `ü 😀`, strings.Repeat("long word ", 40),
}

// TestQuoting: each value comes back as it was, out of YAML, a shell's line and Python.
func TestQuoting(t *testing.T) {
	const text = "block: {one: [[ yaml .text ]], two: 2}\nplain: [[ yaml .text ]]\ncommand: |\n  printf '%s\\n' [[ sh .text ]]\npython: |\n  [[ py .text ]]\n"
	folder := fstest.MapFS{"a.yaml.tmpl": {Data: []byte(text)}, "b/copied.sh": {Data: []byte("[[ -e x ]]")}}
	one := &Template{*sized(t), folder}
	var shell, python, hex string
	for _, value := range hostile {
		values, err := one.Values([]string{"text=" + value}, "project")
		if err != nil {
			t.Fatal(err)
		}
		files, err := one.Files(values)
		if err != nil || len(files) != 2 || files[0].Name != "a.yaml" || string(files[1].Content) != "[[ -e x ]]" {
			t.Fatalf("%q: %v %v", value, files, err)
		}
		var got struct {
			Block struct {
				One any
				Two int
			}
			Plain           any
			Command, Python string
		}
		if err := yaml.Unmarshal(files[0].Content, &got); err != nil || got.Block.One != value || got.Block.Two != 2 || got.Plain != value {
			t.Errorf("%q: %v %v", value, err, got)
		}
		shell += got.Command
		python += "print((" + got.Python + ").encode().hex())\n"
		hex += fmt.Sprintf("%x\n", value)
	}
	if said, want := output(t, "sh", "-c", shell), strings.Join(hostile, "\n")+"\n"; said != want {
		t.Errorf("a shell reads %q of %q", said, want)
	}
	if said := output(t, "python3", "-c", python); said != hex {
		t.Errorf("Python reads %s of %s", said, hex)
	}
}

func TestFilesRefused(t *testing.T) {
	many := fstest.MapFS{}
	for i := range maxFiles + 1 {
		many[fmt.Sprint(i)] = &fstest.MapFile{}
	}
	for want, folder := range map[string]fstest.MapFS{
		"{{.text}} is not quoted":                   {"a.tmpl": {Data: []byte("[[ .text ]]")}},
		"{{sh .text | len}} is not quoted":          {"a.tmpl": {Data: []byte("[[ if .keep ]][[ sh .text | len ]][[ end ]]")}},
		`{{.}} is not quoted`:                       {"a.tmpl": {Data: []byte(`[[ define "x" ]][[ . ]][[ end ]][[ template "x" .text ]]`)}},
		`map has no entry for key "txt"`:            {"a.tmpl": {Data: []byte("[[ yaml .txt ]]")}},
		`function "env" not defined`:                {"a.tmpl": {Data: []byte("[[ env ]]")}},
		"unexpected EOF":                            {"a.tmpl": {Data: []byte("[[ if .text ]]")}},
		"it is no YAML with these values":           {"a.yml.tmpl": {Data: []byte("a: [")}},
		"the file becomes larger than 1 MiB":        {"a.tmpl": {Data: []byte("[[ range 9999999 ]]xxxxxxxx[[ end ]]")}},
		"sized/big: it is larger than 1 MiB":        {"big": {Data: make([]byte, maxFile+1)}},
		"another file of the template has the same": {"a.tmpl": {}, "a": {}},
		"the template has more than 100 files":      many,
		"its name has control characters":           {"a\nb": {}},
		"sized/pipe: it is not a regular file":      {"pipe": {Mode: fs.ModeNamedPipe}},
		"division by zero":                          {"a.tmpl": {Data: []byte("[[ div 1 0 | yaml ]]")}},
	} {
		one := &Template{*sized(t), folder}
		values, err := one.Values(nil, "project")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := one.Files(values); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestOpen reads templates of a team, and nothing through links that lead out of their folder.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	put("secret", "s3cret")
	put("mine/good/template.yaml", small)
	put("mine/good/sub/a.txt", "a")
	put("mine/good/.git/config", "[core]")
	put("mine/linked/template.yaml", small)
	put("mine/README.md", "not a template")
	link("sub/a.txt", "mine/good/same")
	link("../../secret", "mine/linked/data")
	put("away/x", "")
	link("../mine/good/template.yaml", "away/template.yaml")
	put("empty/x", "")

	all, closed, err := Open(filepath.Join(dir, "mine"))
	if err != nil || len(all) != 2 || all[0].Name != "good" {
		t.Fatal(all, err)
	}
	defer closed()
	files, err := all[0].Files(map[string]any{})
	if err != nil || len(files) != 2 || files[0].Name != "same" || string(files[0].Content) != "a" || files[1].Name != "sub/a.txt" {
		t.Errorf("%v %v", files, err)
	}
	if files, err := all[1].Files(map[string]any{}); err == nil || !strings.Contains(err.Error(), "linked/data: it cannot be read, or it is a link that leads out of the template's folder") {
		t.Errorf("%v %v", files, err)
	}
	for name, want := range map[string]string{
		"mine/good": "",
		"away":      "a link that leads out of the template's folder",
		"empty":     "there is no template.yaml in it or in a folder of it",
		"nosuch":    "the folder cannot be read: no such file or directory",
		"secret":    "the folder cannot be read: not a directory",
	} {
		one, closed, err := Open(filepath.Join(dir, name))
		if err == nil {
			defer closed()
		}
		if (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, %v", name, one, err)
		}
	}
}

// TestBuiltin: each template of rayctl renders for each of its launchers, its hostile strings change no other key, and the tests that its manifest names exist.
func TestBuiltin(t *testing.T) {
	all, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	if all[0].Name != "basic" {
		t.Errorf("the first template is %s", all[0].Name)
	}
	tests := testNames(t)
	for _, one := range all {
		if one.Group == "" || one.For == "" || one.Framework.Name == "" || len(one.Next) == 0 || len(one.Ran)+len(one.Checked) == 0 || len(one.Sources) == 0 {
			t.Errorf("%s: group, for, framework, next, evidence or sources are missing", one.Name)
		}
		if n := one.Needs; one.Group == "rl" && one.Name != "grpo" && slices.Contains([]string{n.Image, n.Shm, n.Memlock, n.Ulimits, n.Storage}, "") { // grpo runs anywhere
			t.Errorf("%s: the image, shm, memlock, ulimits or the storage that nodes need are missing: %+v", one.Name, n)
		}
		for _, e := range append(one.Ran, one.Checked...) {
			if !tests[e.Test] {
				t.Errorf("%s: there is no test %s", one.Name, e.Test)
			}
		}
		launchers := one.Launchers
		if len(launchers) == 0 {
			launchers = []string{""}
		}
		for _, l := range launchers {
			rendered(t, one, launcherSet(l))
		}
		for _, p := range one.Parameters {
			if p.Type != stringType || p.Pattern != "" {
				continue
			}
			usual := rendered(t, one, append(launcherSet(launchers[0]), p.Name+"=x"))
			for _, value := range hostile {
				if got := rendered(t, one, append(launcherSet(launchers[0]), p.Name+"="+value)); value != "" && got != usual {
					t.Errorf("%s with %s=%q has the keys %s, want %s", one.Name, p.Name, value, got, usual)
				}
			}
		}
	}
}

func launcherSet(name string) []string {
	if name == "" {
		return nil
	}
	return []string{"launcher=" + name}
}

// rendered are the keys of the YAML files of a template.
func rendered(t *testing.T, one *Template, set []string) (all string) {
	t.Helper()
	values, err := one.Values(set, "project")
	if err != nil {
		t.Fatalf("%s: %v", one.Name, err)
	}
	files, err := one.Files(values)
	if err != nil {
		t.Fatalf("%s with %q: %v", one.Name, set, err)
	}
	for _, f := range files {
		if ext := filepath.Ext(f.Name); ext == ".yaml" || ext == ".yml" {
			var document any
			read(t, f.Content, &document)
			all += f.Name + keys(document)
		}
	}
	return all
}

// keys are the keys of a document in all depths, without values.
func keys(v any) string {
	switch v := v.(type) {
	case map[string]any:
		parts := map[string]string{}
		for key, value := range v {
			parts[key] = keys(value)
		}
		return fmt.Sprint(parts)
	case []any:
		var parts []string
		for _, value := range v {
			parts = append(parts, keys(value))
		}
		return fmt.Sprint(parts)
	}
	return ""
}

// testNames are the tests of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && len(d.Name()) > 2 && d.Name()[0] == '.':
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		for _, m := range function.FindAllSubmatch(file(t, path), -1) {
			found[string(m[1])] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
