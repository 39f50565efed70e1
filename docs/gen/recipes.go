package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rayctl/rayctl/templates/workloads"
)

// recipes writes what each template is for, and what it was tried with, from the manifests.
func recipes(string) ([]byte, error) {
	all, err := workloads.Builtin()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("# Recipes\n\nMade from the templates' manifests by `make docs`. `rayctl init TEMPLATE` writes the files, `rayctl init TEMPLATE --params` shows what `--set` can change, and\n" +
		"[Templates of a team](templates.md) says how to write one.\n\n**Run** means that a test runs the files, with small sizes and with the packages that its machine has. **Checked, not run** means that a test compares their options with the framework's own, and runs nothing.\n\n" +
		"| template | framework | launchers | run or checked | by |\n|---|---|---|---|---|\n")
	for _, t := range all {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s | %s |\n", t.Name, t.Name, framework(t.Framework), orDash(strings.Join(t.Launchers, ", ")), orDash(howTried(t)), orDash(testsOf(t)))
	}
	for _, t := range all {
		recipe(&b, t)
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n'), nil
}

func framework(f workloads.Framework) string {
	text := strings.TrimSpace(f.Name + " " + f.Version)
	if f.Source != "" {
		return "[" + text + "](" + f.Source + ")"
	}
	return orDash(text)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func howTried(t *workloads.Template) string {
	var how []string
	for _, e := range t.Ran {
		how = append(how, "run"+before(" on ", e.On)+before(" with ", version(e)))
	}
	for _, e := range t.Checked {
		how = append(how, "checked, not run,"+before(" against ", e.Against)+before(", ", version(e)))
	}
	return strings.Join(how, "; ")
}

// version is what a test ran or compared, such as 0.9.1 at a commit.
func version(e workloads.Evidence) string {
	return strings.TrimSpace(e.Version + before(" commit ", e.Commit))
}

func before(word, text string) string {
	if text == "" {
		return ""
	}
	return word + text
}

func testsOf(t *workloads.Template) string {
	var tests []string
	for _, list := range [][]workloads.Evidence{t.Ran, t.Checked} {
		for _, e := range list {
			tests = append(tests, "`"+e.Test+"`")
		}
	}
	return strings.Join(tests, ", ")
}

// recipe is the section about a template.
func recipe(b *bytes.Buffer, t *workloads.Template) {
	fmt.Fprintf(b, "\n## %s\n\n%s. For %s.\n\n", t.Name, strings.ToUpper(t.Title[:1])+t.Title[1:], t.For)
	if len(t.Parameters) > 0 {
		b.WriteString("| parameter | default | takes | meaning |\n|---|---|---|---|\n")
		for _, p := range t.Parameters {
			fmt.Fprintf(b, "| `%s` | `%v` | %s | %s |\n", p.Name, p.Default, strings.ReplaceAll(p.Takes(), "|", `\|`), p.Help)
		}
		b.WriteString("\n")
	}
	for _, c := range t.Checks {
		fmt.Fprintf(b, "- %s\n", c.Rule())
	}
	for _, n := range []struct{ what, text string }{
		{"image", t.Needs.Image}, {"GPUs", t.Needs.GPUs}, {"/dev/shm", t.Needs.Shm}, {"locked memory", t.Needs.Memlock}, {"ulimits", t.Needs.Ulimits}, {"ports", t.Needs.Ports}, {"storage", t.Needs.Storage},
	} {
		if n.text != "" {
			fmt.Fprintf(b, "- Nodes need, %s: %s\n", n.what, n.text)
		}
	}
	if len(t.Sources) > 0 {
		var links []string
		for _, source := range t.Sources {
			links = append(links, "<"+source+">")
		}
		fmt.Fprintf(b, "- Options are from %s\n", strings.Join(links, ", "))
	}
}
