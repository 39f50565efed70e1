// Package apptest runs rayctl's verbs in tests without a cluster: an App on buffers, trees of some verbs alone, and a launcher in memory.
package apptest

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// New is an isolated App: no terminal, no variables, no launchers.
func New() (a *app.App, out, err *bytes.Buffer) {
	out, err = &bytes.Buffer{}, &bytes.Buffer{}
	a = &app.App{
		Streams: terminal.Streams{In: strings.NewReader(""), Out: out, Err: err, Now: time.Now},
		Getenv:  func(string) string { return "" }, Notify: func(chan<- os.Signal, ...os.Signal) {}, Launchers: map[string]app.NewLauncher{},
	}
	a.UI = terminal.NewUI(&a.Streams, a.Getenv)
	return a, out, err
}

// Tree makes a rayctl of these verbs alone.
func Tree(verbs ...func(*app.App) *cobra.Command) func(*app.App) *cobra.Command {
	return func(a *app.App) *cobra.Command {
		root := &cobra.Command{Use: "rayctl"}
		a.Prepare(root)
		for _, verb := range verbs {
			root.AddCommand(verb(a))
		}
		return root
	}
}

// WriteFiles makes files below a directory.
func WriteFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Line is one command line and what is expected of it.
type Line struct {
	// Args are words; '' is an empty one.
	Args string
	Code int
	// Out is in stdout; "" expects nothing there. Err is in stderr, and Unsaid is not; without Err no error and no warning is there.
	Out, Err, Unsaid string
	// JSON: stdout is one JSON document and nothing else.
	JSON bool
	// Before is run first, on the same launcher.
	Before string
	// Calls are the calls on the launcher that change something, and then those on Ray that end or remove something.
	Calls []string
	// Interrupt sends SIGINT as soon as something is written to stdout, InterruptAt as soon as this was written to stderr.
	Interrupt   bool
	InterruptAt string
	// Files are there, Later ones only after Before; Made is a file that is there afterwards.
	Files, Later map[string]string
	Made         string
	// Stdin is typed. With Terminal, all streams claim to be a terminal.
	Stdin    string
	Terminal bool
}

// Run runs each line on a launcher of its own, in an empty directory with an empty home: open makes the local launcher, and there is a Slurm without
// clusters. A refusal is one sentence.
func Run(t *testing.T, tree func(*app.App) *cobra.Command, open func() launcher.Launcher, lines []Line) {
	t.Helper()
	for _, line := range lines {
		t.Run(line.Args, func(t *testing.T) {
			t.Chdir(t.TempDir())
			home := t.TempDir()
			t.Setenv("HOME", home)
			t.Setenv("CI", "") // where the tests run in CI, a line is still typed by a person
			for _, name := range []string{"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"} {
				t.Setenv(name, filepath.Join(home, name))
			}
			WriteFiles(t, ".", line.Files)
			l := open()
			memory, _ := l.(*Launcher)
			if served, ok := l.(interface{ Serve(t *testing.T) }); ok { // also one around a Launcher
				served.Serve(t)
			}
			if line.Before != "" {
				if code, _, said := execute(t, tree, l, Line{Args: line.Before}); code != 0 {
					t.Fatalf("%s: code %d, %s", line.Before, code, said)
				}
			}
			WriteFiles(t, ".", line.Later)
			code, out, said := execute(t, tree, l, line)
			if code != line.Code || !strings.Contains(out, line.Out) || line.Out == "" && out != "" || !strings.Contains(said, line.Err) {
				t.Errorf("code %d, stdout %q, stderr %q; want %d, %q, %q", code, out, said, line.Code, line.Out, line.Err)
			}
			if line.Unsaid != "" && strings.Contains(said, line.Unsaid) {
				t.Errorf("stderr has %q: %q", line.Unsaid, said)
			}
			if line.Err == "" && (line.Code >= runstate.CodeUsage && line.Code <= runstate.CodeConfig || refusedOrWarned.MatchString(said)) {
				t.Errorf("no words are expected of the error, or of the warning: %q", said)
			}
			if line.JSON && !json.Valid([]byte(out)) {
				t.Errorf("not one JSON document: %q", out)
			}
			if refused := code >= runstate.CodeUsage && code <= runstate.CodeConfig; refused && out == "" && strings.Count(said, "rayctl: ") != 1 {
				t.Errorf("a refusal is one sentence: %q", said)
			}
			if _, err := os.Stat(line.Made); line.Made != "" && err != nil {
				t.Error(err)
			}
			if memory != nil {
				if calls := slices.Concat(memory.Calls, memory.Ray.called()); !slices.Equal(calls, line.Calls) {
					t.Errorf("calls %q, want %q", calls, line.Calls)
				}
			}
		})
	}
}

// refusedOrWarned is rayctl's error, or a warning of its log.
var refusedOrWarned = regexp.MustCompile(`(?m)^(rayctl: |msg=|level=)`)

// execute runs one line.
func execute(t *testing.T, tree func(*app.App) *cobra.Command, l launcher.Launcher, line Line) (code int, out, said string) {
	t.Helper()
	a, _, _ := New()
	a.Getenv, a.In = os.Getenv, strings.NewReader(line.Stdin)
	a.Now = func() time.Time { return Begin.Add(time.Hour) }
	a.InTTY, a.OutTTY, a.ErrTTY = line.Terminal, line.Terminal, line.Terminal
	a.Launchers[localspec.Name] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) { return l, nil }
	a.Launchers[slurmspec.Name] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) {
		return &Launcher{Title: slurmspec.Name}, nil
	}
	var signals chan<- os.Signal
	interrupt := sync.OnceFunc(func() { signals <- syscall.SIGINT })
	stdout := &stream{interrupts: func(string) bool { return line.Interrupt }, interrupt: interrupt}
	stderr := &stream{interrupts: func(s string) bool { return line.InterruptAt != "" && strings.Contains(s, line.InterruptAt) }, interrupt: interrupt}
	a.Out, a.Err = stdout, stderr
	a.Notify = func(c chan<- os.Signal, _ ...os.Signal) { signals = c }
	args := strings.Fields(line.Args)
	for i := range args {
		args[i] = strings.TrimSuffix(args[i], "''")
	}
	code = a.Execute(t.Context(), tree, args)
	return code, stdout.String(), stderr.String()
}

// stream is a buffer that may send SIGINT when it is written to.
type stream struct {
	bytes.Buffer
	interrupts func(all string) bool
	interrupt  func()
}

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	if s.interrupts(s.String()) {
		s.interrupt()
	}
	return n, err
}

// OwnHome gives a test directories of its own for the user's files.
func OwnHome(t *testing.T) {
	t.Helper()
	for _, variable := range []string{"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(variable, t.TempDir())
	}
}
