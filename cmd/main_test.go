package cmd

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/templates/workloads"
)

// TestUsage expects code 64 and one sentence for wrong command lines.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{"nosuch"}, {"rum"}, {"--nosuch"}, {"run", "x"}, {"run", "--on-interrupt", "maybe", "--", "true"}, {"run", "-o", "xml", "--", "true"},
		{"run", "--end-on-disconnect=1s", "--", "true"}, {"run", "--recreate", "--", "true"}, {"exec", "dev"}, {"extend"}, {"cp", "a"}, {"cp", "a", "b"},
		{"port-forward"}, {"port-forward", "99999"}, {"submit", "a", "b"}, {"submit", "a", "-c", "b", "--", "x"}, {"serve", "nosuch"}, {"serve", "apply"},
		{"logs", "--file", "x"}, {"logs", "--tail", "-1"}, {"logs", "--attempt", "1", "--node", "x"}, {"init", "nosuch"}, {"env", "--shell", "tcsh"}, {"jobs", "--address", "nonsense"},
		{"jobs", "--address", "http://x", "-c", "y"}, {"down", "a", "--all"}, {"ls", "-l", "x"}, {"status", "Not A Name"},
		{"down", ""}, {"down", "a", ""}, {"run", "--name", "", "--", "true"}, {"submit", "-c", "", "--", "x"}, {"render", "-f", ""}, {"stop", ""},
		{"submit", "--submission-id", "a/b", "--", "x"},
	} {
		a, out, stderr := apptest.New()
		t.Chdir(t.TempDir())
		a.Launchers["local"] = launchers()["local"]
		t.Setenv("XDG_STATE_HOME", t.TempDir())
		code := a.Execute(context.Background(), NewRoot, args)
		if code != runstate.CodeUsage || out.Len() > 0 || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%q: code %d, stdout %q, stderr %q", args, code, out, stderr)
		}
	}
}

// TestVersionAndInitsNextCommand checks what people try first: --version, and the next command that init prints.
func TestVersionAndInitsNextCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	said := func(args ...string) (string, string) {
		a, out, stderr := apptest.New()
		if code := a.Execute(context.Background(), NewRoot, args); code != 0 {
			t.Fatalf("%q: code %d, stderr %q", args, code, stderr)
		}
		return out.String(), stderr.String()
	}
	flag, _ := said("--version")
	if command, _ := said("version"); flag != command || flag == "" {
		t.Errorf("--version says %q, version %q", flag, command)
	}
	for dir, want := range map[string]string{".": "next: `rayctl run`", "it's new": "next: `cd 'it'\"'\"'s new' && rayctl run`"} {
		if _, next := said("init", "--dir", dir); !strings.Contains(next, want) {
			t.Errorf("init --dir %q says %q, want %q", dir, next, want)
		}
	}
}

// TestTemplatesAreClusterFiles: the cluster file of each template is valid for each of its launchers.
func TestTemplatesAreClusterFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	all, err := workloads.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	does := func(args ...string) string {
		a, out, stderr := apptest.New()
		a.Launchers = launchers()
		if code := a.Execute(t.Context(), NewRoot, args); code != 0 {
			t.Errorf("%q: code %d, stderr %q", args, code, stderr)
		}
		return out.String()
	}
	for _, one := range all {
		for _, launcher := range one.Launchers {
			dir := one.Name + "-" + launcher
			does("init", one.Name, "--launcher", launcher, "--dir", dir)
			if made := does("render", "--spec", "--up", "-f", filepath.Join(dir, "rayctl.yaml")); !strings.Contains(made, "launcher: "+launcher+"\n") {
				t.Errorf("%s is for another launcher: %s", dir, made)
			}
		}
	}
}

// TestLsWithoutSubstrate: ls must not report that there is no cluster if it could not look for one.
func TestLsWithoutSubstrate(t *testing.T) {
	t.Chdir(t.TempDir())
	bin := t.TempDir()                                                                                 // without Slurm
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable, end='')").Output() // python3 may be a script
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"sh": "/bin/sh", "env": "/usr/bin/env", "python3": string(python)} {
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"PATH": bin, "HOME": t.TempDir(), "XDG_RUNTIME_DIR": "", "KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": ""} {
		t.Setenv(name, value)
	}
	for name, want := range map[string]string{"slurm": "there is no Slurm on this machine", "kuberay": "no Kubernetes is configured"} {
		a, out, stderr := apptest.New()
		a.Launchers = launchers()
		code := a.Execute(context.Background(), NewRoot, []string{"ls", "--launcher", name})
		if said := stderr.String(); code != runstate.CodeConfig || out.Len() > 0 || strings.Count(said, "\n") != 1 || !strings.Contains(said, want) {
			t.Errorf("%s: code %d, stdout %q, stderr %q", name, code, out, said)
		}
	}
}

// TestDoctorJSON expects keys like those of all other answers.
func TestDoctorJSON(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	a, out, _ := apptest.New()
	a.Launchers = launchers()
	a.Execute(context.Background(), NewRoot, []string{"doctor", "--python", "/nosuch", "-o", "json"})
	if text := out.String(); !strings.Contains(text, `"ok": false`) || !strings.Contains(text, `"hint": `) || strings.Contains(text, `"Name"`) {
		t.Errorf("doctor -o json: %s", text)
	}
}

// TestPanic expects one sentence that calls a panic a bug of rayctl.
func TestPanic(t *testing.T) {
	a, _, stderr := apptest.New()
	a.Getenv = func(string) string { return "" }
	a.Launchers = nil
	a.Out = broken{}
	if code := a.Execute(context.Background(), NewRoot, []string{"version"}); code != runstate.CodeInternal || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
}

// broken is a stream with a bug.
type broken struct{}

func (broken) Write([]byte) (int, error) { panic("broken") }

// TestEveryCommandExplainsItself checks the help of every command.
func TestEveryCommandExplainsItself(t *testing.T) {
	a, _, _ := apptest.New()
	for _, c := range NewRoot(a).Commands() {
		if c.Hidden {
			continue
		}
		if c.Short == "" || (!c.HasSubCommands() && c.Example == "") {
			t.Errorf("%s lacks help", c.CommandPath())
		}
	}
}

// TestHelpFits: no line of any help is wider than a terminal of 80 columns, or than one of 60, on which words and commands stay whole.
func TestHelpFits(t *testing.T) {
	var all func(c *cobra.Command, path []string)
	all = func(c *cobra.Command, path []string) {
		a, out, _ := apptest.New()
		if code := a.Execute(context.Background(), NewRoot, append(slices.Clone(path), "--help-all")); code != 0 {
			t.Errorf("%q --help-all: code %d", path, code)
		}
		for line := range strings.Lines(out.String()) {
			if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > 80 {
				t.Errorf("%q --help-all: %d columns: %s", path, utf8.RuneCountInString(line), line)
			}
		}
		narrow := apptest.OnTerminal(t, 60, func(a *app.App) { a.Execute(context.Background(), NewRoot, append(slices.Clone(path), "--help-all")) })
		apptest.Fits(t, narrow, 60)
		plain := strings.NewReplacer(" \\\n", " ").Replace(narrow)
		for _, word := range strings.Fields(out.String()) {
			if !strings.Contains(plain, word) {
				t.Errorf("%q --help-all of 60 columns: %s is not whole", path, word)
			}
		}
		for _, sub := range c.Commands() {
			if sub.Hidden {
				continue
			}
			all(sub, append(slices.Clone(path), sub.Name()))
		}
	}
	a, _, _ := apptest.New()
	root := NewRoot(a)
	root.InitDefaultHelpCmd()
	all(root, nil)
}
