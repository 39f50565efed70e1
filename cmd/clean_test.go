package cmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// evil has characters with an effect on terminals: colours, titles, the clipboard, moving the cursor, C1, other directions.
const evil = "a\x1b[31mb\x1b]0;title\x07c\rd\x08e\u009b2Jf\u202eg\x7fh\xffi\u2028j"

// TestClean checks that foreign escape sequences never reach the terminal, and that other text is unchanged.
func TestClean(t *testing.T) {
	const want = `a\x1b[31mb\x1b]0;title\x07c\x0dd\x08e\u009b2Jf\u202eg\x7fh\xffi\u2028j`
	if got := clean(evil); got != want {
		t.Errorf("%s", got)
	}
	for _, s := range []string{"", "ünï😀 日本\t\n", "עברית", "\uFFFD"} {
		if clean(s) != s {
			t.Errorf("%q became %q", s, clean(s))
		}
	}
	harmless := func(what, text string) {
		t.Helper()
		if text == "" || strings.ContainsFunc(strings.ReplaceAll(text, "\r\x1b[K", ""), dangerous) {
			t.Errorf("%s: %q", what, text)
		}
	}
	a, out, stderr := testApp()
	s := launcher.Status{Name: evil, Labels: map[string]string{"l": evil}, Phase: runstate.Ready, Nodes: []runstate.Node{{Name: evil, Message: evil}},
		Reason: runstate.Reason{Message: evil}, Job: &runstate.Job{Message: evil}, Exit: &runstate.Exit{Message: evil}, Timeline: []runstate.Event{{Message: evil}}}
	for _, format := range []string{formatText, formatWide, formatName, formatJSON} {
		if err := a.printClusters(&lsOptions{output: output{format: format}}, []launcher.Status{s}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.printStatus(out, s); err != nil {
		t.Fatal(err)
	}
	if err := a.printChange(&statusOptions{}, s, ""); err != nil {
		t.Fatal(err)
	}
	a.printChecks([]launcher.Check{{Name: "x", Detail: evil, Hint: evil}})
	harmless("stdout", out.String())
	a.ui.note("%s %v", evil, usageError(evil, "%s", evil))
	a.ui.warn("%s", launcher.ID(evil))
	a.ui.live(evil, a.Now())
	a.report(usageError(evil, "%s", evil))
	harmless("stderr", stderr.String())

	var buffer bytes.Buffer
	if err := writeJSON(&buffer, []string{evil}); err != nil {
		t.Fatal(err)
	}
	var back []string
	if err := json.Unmarshal(buffer.Bytes(), &back); err != nil || back[0] != strings.ToValidUTF8(evil, "\uFFFD") {
		t.Errorf("JSON is another: %q, %v", back, err)
	}
}

// TestSecretContent: a value that no variable can hold is refused, and the error names the secret without its value.
func TestSecretContent(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"NUL": "hush\x00hush", "LATIN1": "hush\xe9"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		a, _, _ := testApp()
		_, err := a.secrets(&spec.ClusterSpec{Secrets: []spec.Secret{{Name: name, File: filepath.Join(dir, name)}}})
		if exitCodeOf(err) != runstate.CodeConfig || !strings.Contains(err.Error(), "secret "+name) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
	a, _, _ := testApp()
	a.Getenv = func(string) string { return "hush\xe9" }
	if _, err := a.secrets(&spec.ClusterSpec{Secrets: []spec.Secret{{Name: "VARIABLE"}}}); exitCodeOf(err) != runstate.CodeConfig || strings.Contains(err.Error(), "hush") {
		t.Errorf("a variable: %v", err)
	}
}

// TestQuietFailure: -q prints the error of a run that rayctl ended, and nothing for a run that the driver ended.
func TestQuietFailure(t *testing.T) {
	for origin, want := range map[string]string{"rayctl": "rayctl: x: start failed, rayctl's exit code 73: no Ray here\n", "driver": ""} {
		a, _, stderr := testApp()
		a.quiet = true
		a.Getenv = func(string) string { return t.TempDir() }
		rc := &launcher.Receipt{Name: "x", Exit: runstate.Exit{Cause: "start-failed", Code: 73, Origin: origin, Message: "no Ray here"}}
		err := a.finishRun(&runOptions{}, &launcher.Outcome{Receipt: rc})
		if exitCodeOf(err) != 73 || stderr.String() != want {
			t.Errorf("%s: %v, %q", origin, err, stderr)
		}
	}
}
