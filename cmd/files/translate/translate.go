// Package translate makes a cluster file of what people start Ray with by hand: a batch script, a manifest of KubeRay, a command line of `ray job submit`. It reads and
// never runs anything, and names what it leaves out.
package translate

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rayctl/rayctl/launcher/spec"
)

// Result is a cluster file with what its source had besides.
type Result struct {
	// Content is the cluster file. Its comments have Left and Check.
	Content []byte
	// Left are the parts of the source that the file does not have, a sentence each. Check are decisions that the source leaves open.
	Left, Check []string
	// Job is whether the file has a command to run.
	Job bool
}

// draft is a Result in the making.
type draft struct {
	kind, source string // what the source is, such as a batch script of Slurm; the file's name
	top          keys
	left, check  []string
	launcher     string // "": the file does not say where the cluster runs
	elsewhere    bool   // the cluster file is not in the current directory
}

func newDraft(kind string, from Source) *draft {
	return &draft{kind: kind, source: from.Name, elsewhere: from.Elsewhere, top: newKeys()}
}

// Source is what is translated.
type Source struct {
	// Name is the file's name, for messages, and Command how the user asked, for the first line of the cluster file.
	Name, Command string
	Data          []byte
	// Elsewhere: the cluster file is not for the current directory.
	Elsewhere bool
}

func (d *draft) leave(format string, args ...any) {
	if text := oneLine(fmt.Sprintf(format, args...)); !slices.Contains(d.left, text) {
		d.left = append(d.left, text)
	}
}

func (d *draft) ask(format string, args ...any) {
	if text := oneLine(fmt.Sprintf(format, args...)); !slices.Contains(d.check, text) {
		d.check = append(d.check, text)
	}
}

// secret asks for a value that is not copied. where it stands is the beginning of the sentence.
func (d *draft) secret(name, where string) {
	d.top.add("secrets", name)
	d.ask("%sthe value of %s is not copied: it is a secret, which rayctl takes from your environment", where, name)
}

// Of reads a file. An error is a spec.Error.
func Of(from Source) (*Result, error) {
	source, data := from.Name, from.Data
	fail := func(line int, hint, format string, args ...any) error {
		return &spec.Error{File: source, Line: line, Msg: fmt.Sprintf(format, args...), Hint: hint}
	}
	switch {
	case len(data) > spec.MaxFileBytes:
		return nil, fail(0, other, "is larger than 4 MiB, which no script or manifest is")
	case bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data):
		return nil, fail(0, other, "is not a text file in UTF-8")
	case len(bytes.TrimSpace(data)) == 0:
		return nil, fail(0, other, "is empty")
	}
	data = bytes.TrimPrefix(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\ufeff"))
	manifest, err := spec.ReadManifest(source, data)
	if err != nil {
		return nil, err
	}
	var d *draft
	if manifest != nil {
		d, err = ofManifest(from, manifest)
	} else {
		d, err = ofScript(from, data)
	}
	if err != nil {
		return nil, err
	}
	return d.result(from.Command)
}

const other = "give a batch script, a RayJob, a RayCluster, or a file with a `ray job submit` line; `rayctl init` begins a new file"

// order is that of the keys in the file.
var order = []string{"name", "labels", "launcher", "image", "ray", "env", "setup", "secrets", "mounts", "head", "workers", "scaling", "lifetime", "job", "slurm", "kuberay"}

// result writes the file, and checks it as a launch does: what its source has may be impossible.
func (d *draft) result(command string) (*Result, error) {
	r := &Result{Job: d.top.has("job") && d.top.below("job").has("entrypoint")}
	d.top.sort(order)
	body, err := d.top.text()
	if err != nil {
		return nil, &spec.Error{File: d.source, Msg: "cannot be written as a cluster file: " + err.Error(), Hint: other}
	}
	if err := d.refusals(body); err != nil {
		return nil, err
	}
	r.Left, r.Check = d.left, d.check
	var out strings.Builder
	fmt.Fprintf(&out, "# Made by `%s` from %s. `rayctl validate` checks it, `rayctl schema` has every key.\n", oneLine(command), d.kind)
	for _, part := range []struct {
		title string
		lines []string
	}{{"Not translated:", r.Left}, {"To check:", r.Check}} {
		if len(part.lines) > 0 {
			fmt.Fprintf(&out, "#\n# %s\n", part.title)
		}
		for _, line := range part.lines {
			fmt.Fprintf(&out, "# - %s\n", line)
		}
	}
	out.WriteString("\n")
	out.Write(body)
	r.Content = []byte(out.String())
	return r, nil
}

// refusals adds to what is to be checked why a launch would refuse the file.
func (d *draft) refusals(body []byte) error {
	s, err := spec.Decode(bytes.NewReader(body), "")
	if err == nil {
		s.Launcher = d.launcher
		if s.Launcher == "" {
			s.Launcher = spec.Fallback()
		}
		spec.Default(s)
		err = spec.Validate(s)
	}
	for _, e := range spec.AsErrors(err) {
		short := *e
		short.File, short.Line = "", 0
		d.ask("rayctl refuses this as it is: %v", &short)
	}
	if err != nil && spec.AsErrors(err) == nil {
		return err
	}
	return nil
}

// oneLine is text for a comment or a message: one line, without control characters, not too long.
func oneLine(text string) string {
	text = cleaned(text)
	const most = 220
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-3]) + "..."
	}
	return text
}

// cleaned is text in one line, without characters that a terminal or YAML takes for something else.
func cleaned(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0x85 || r == 0xfeff {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}
