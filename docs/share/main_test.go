package main

import (
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/cmd"
)

// TestRun expects a page with all flags for each command, and the same files for the same date.
func TestRun(t *testing.T) {
	const date = "2026-01-02T03:04:05Z"
	one, two := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, two} {
		if err := run(date, []string{dir}); err != nil {
			t.Fatal(err)
		}
	}
	first, second := tree(t, one), tree(t, two)
	if d := cmp.Diff(first, second); d != "" {
		t.Errorf("the same date gives other files:\n%s", d)
	}
	for shell, name := range completions {
		if !strings.Contains(first[name], "__complete") {
			t.Errorf("%s: no completion in %s", shell, name)
		}
	}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		text := first["man/man1/"+strings.ReplaceAll(c.CommandPath(), " ", "-")+".1.gz"]
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(text, "--"+f.Name+`\fP`) {
				t.Errorf("the page of %s has no --%s", c.CommandPath(), f.Name)
			}
		})
		if !strings.Contains(text, `.TH "`) || !strings.Contains(text, "Jan 2026") {
			t.Errorf("the page of %s: %q", c.CommandPath(), text)
		}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				check(sub)
			}
		}
	}
	check(cmd.NewRoot(isolated(io.Discard, io.Discard)))
}

// tree are the contents of all files, unpacked.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer f.Close()
		var r io.Reader = f
		if strings.HasSuffix(name, ".gz") {
			if r, err = gzip.NewReader(f); err != nil {
				return err
			}
		}
		text, err := io.ReadAll(r)
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
