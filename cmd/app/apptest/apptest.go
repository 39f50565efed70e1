// Package apptest runs rayctl's verbs in tests without a cluster: an App on buffers, trees of some verbs alone, and a launcher in memory.
package apptest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
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
