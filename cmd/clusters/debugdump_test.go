package clusters

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
)

// dumps are debug-dump alone.
var dumps = apptest.Tree(func(a *app.App) *cobra.Command { return NewDebugDump(a, "rayctl test") })

// TestDebugDumpLines: command lines of debug-dump.
func TestDebugDumpLines(t *testing.T) {
	apptest.Run(t, dumps, func() launcher.Launcher { return (&apptest.Launcher{Output: "saved\n"}).With("dev", "old") }, []apptest.Line{
		{Args: "debug-dump old", Out: "rayctl-debug-old-20260102-040405.tar.gz\n", Err: "the archive holds result.json, status.json, version.txt\nthe archive does not have the output of your program", Made: "rayctl-debug-old-20260102-040405.tar.gz"},
		{Args: "debug-dump old -o x.tgz --driver-log", Out: "x.tgz\n", Err: "the archive holds driver.log, ", Unsaid: "does not have the output", Made: "x.tgz"},
		{Args: "debug-dump dev -o x.tgz", Out: "x.tgz\n", Err: "1 parts could not be read: problems.txt in the archive names them\n", Made: "x.tgz"},
		{Args: "debug-dump old -o x.tgz", Files: map[string]string{"x.tgz": "mine"}, Code: runstate.CodeUsage, Err: "x.tgz already exists: give --force, or another FILE with -o"},
		{Args: "debug-dump old -o x.tgz --force", Files: map[string]string{"x.tgz": "mine"}, Out: "x.tgz\n", Made: "x.tgz"},
		{Args: "debug-dump old -o no/x.tgz", Code: runstate.CodeUsage, Err: "-o: there is no directory no: make it first, or give another FILE"},
		{Args: "debug-dump old -o json", Code: runstate.CodeUsage, Err: "debug-dump has no output format json: -o takes the archive's file"},
		{Args: "debug-dump old -o -", Out: "\x1f\x8b", Err: "look at the archive before you send it"},
		{Args: "debug-dump nosuch", Code: runstate.CodeSpec, Err: "no cluster named \"nosuch\""},
		{Args: "debug-dump a b", Code: runstate.CodeUsage, Err: "one name"},
	})
}

// examined is a launcher that has more of a cluster.
type examined struct {
	*apptest.Launcher
	examine func(found launcher.Evidence)
}

func (e examined) Examine(_ context.Context, _ launcher.ID, found launcher.Evidence) {
	e.examine(found)
}

// TestDebugDump: a launcher's texts and problems are in the archive, its secrets and the cluster's token are not.
func TestDebugDump(t *testing.T) {
	apptest.OwnHome(t)
	t.Chdir(t.TempDir())
	t.Setenv("DB_PASSWORD", "of-this-process")
	const secret = "a-secret-of-the-keeper"
	coded := base64.StdEncoding.EncodeToString([]byte(secret))
	l := examined{(&apptest.Launcher{Ray: &apptest.Ray{}}).With("dev"), func(found launcher.Evidence) {
		text := []byte("the keeper said " + secret + ", of-this-process and hush\n" + coded + "\n")
		found.Add("run/keeper.log", text, int64(len(text)))
		found.Spec(spec.For(&spec.ClusterSpec{Name: "dev", Secrets: []spec.Secret{{Name: "DB_PASSWORD"}}}, localspec.Name))
		found.Missing("slurm/sacct.txt", errors.New("accounting is off"))
		found.Missing("run/keeper.err", os.ErrNotExist)
		found.Secret(secret)
	}}
	l.Serve(t)
	a, out, stderr := apptest.New()
	a.Getenv = os.Getenv
	a.Launchers[localspec.Name] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) { return l, nil }
	if code := a.Execute(t.Context(), dumps, []string{"debug-dump", "dev", "-o", "-"}); code != 0 {
		t.Fatal(code, stderr)
	}
	files := unpack(t, out)
	if a.OutTTY = true; a.Execute(t.Context(), dumps, []string{"debug-dump", "dev", "-o", "-"}) != runstate.CodeUsage || out.Len() > 0 {
		t.Errorf("an archive was written to a terminal: %s", stderr)
	}
	for _, name := range []string{"status.json", "cluster-file.yaml", "version.txt", "run/keeper.log", "ray/nodes.json"} {
		if files[name] == "" {
			t.Errorf("the archive has no %s: %v", name, files)
		}
	}
	if text := files["problems.txt"]; !strings.Contains(text, "slurm/sacct.txt: accounting is off\n") || strings.Contains(text, "keeper.err") {
		t.Errorf("problems: %s", text)
	}
	for name, text := range files {
		for _, hidden := range []string{secret, coded[:len(coded)-4], "of-this-process", "hush"} {
			if strings.Contains(text, hidden) {
				t.Errorf("%s has %q: %s", name, hidden, text)
			}
		}
	}
	if !strings.Contains(stderr.String(), "run, ") {
		t.Errorf("stderr: %s", stderr)
	}
}

// unpack reads an archive.
func unpack(t *testing.T, packed io.Reader) map[string]string {
	t.Helper()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		var text bytes.Buffer
		if err == nil {
			_, err = io.Copy(&text, files)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		out[name] = text.String()
	}
}
