// Command share writes what packages put below /usr/share, man pages and completions, with the names and places that man and the shells look for:
// `go run ./docs/share -date DATE DIR`, which goreleaser does.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/rayctl/rayctl/cmd"
	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
)

// completions are the places where the shells look for rayctl's.
var completions = map[string]string{
	"bash": "bash-completion/completions/rayctl",
	"fish": "fish/vendor_completions.d/rayctl.fish",
	"zsh":  "zsh/site-functions/_rayctl",
}

func main() {
	date := flag.String("date", time.Now().UTC().Format(time.RFC3339), "date of the man pages; the same date gives the same files")
	flag.Parse()
	if err := run(*date, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "share:", err)
		os.Exit(1)
	}
}

func run(date string, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: go run ./docs/share [-date DATE] DIR")
	}
	when, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return err
	}
	dir := args[0]
	for shell, name := range completions {
		var script, stderr bytes.Buffer
		if code := isolated(&script, &stderr).Execute(context.Background(), cmd.NewRoot, []string{"completion", shell}); code != 0 {
			return fmt.Errorf("rayctl completion %s: %s", shell, &stderr)
		}
		if err := write(filepath.Join(dir, name), script.Bytes()); err != nil {
			return err
		}
	}
	man := filepath.Join(dir, "man", "man1")
	old, err := filepath.Glob(filepath.Join(man, "rayctl*.1.gz"))
	if err != nil {
		return err
	}
	for _, page := range old { // a command may be gone
		if err := os.Remove(page); err != nil {
			return err
		}
	}
	return manPages(cmd.NewRoot(isolated(io.Discard, io.Discard)), when.UTC(), man)
}

// isolated is an App without a terminal, variables and launchers.
func isolated(out, err io.Writer) *app.App {
	return &app.App{Streams: terminal.Streams{In: strings.NewReader(""), Out: out, Err: err, Now: time.Now}, Getenv: func(string) string { return "" }}
}

// manPages writes a page for each command that the help shows.
func manPages(c *cobra.Command, date time.Time, dir string) error {
	c.DisableAutoGenTag = true // a line with the day and cobra's name
	var page, packed bytes.Buffer
	if err := doc.GenMan(c, &doc.GenManHeader{Date: &date, Source: "rayctl", Manual: "rayctl"}, &page); err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := page.WriteTo(z); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1.gz"
	if err := write(filepath.Join(dir, name), packed.Bytes()); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if err := manPages(sub, date, dir); err != nil {
			return err
		}
	}
	return nil
}

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
