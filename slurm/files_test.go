package slurm

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

func TestFiles(t *testing.T) {
	f, ctx, dir := &files{runner: Here{}}, t.Context(), t.TempDir()
	t.Cleanup(f.close)
	name, content := filepath.Join(dir, "sub", "a b$(id)'\"\n"), make([]byte, 3<<20+5)
	_, _ = rand.Read(content) // never fails (crypto/rand)
	if err := f.write(ctx, name, bytes.NewReader(content), true); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := f.write(ctx, name, bytes.NewReader(nil), true); !errors.Is(err, os.ErrExist) {
		t.Errorf("written twice: %v", err)
	}
	got, err := io.ReadAll(&reader{ctx: ctx, files: f, path: name, offset: 7})
	if err != nil || !bytes.Equal(got, content[7:]) {
		t.Errorf("read %d bytes: %v", len(got), err)
	}
	if left, err := f.names(ctx, filepath.Dir(name)); err != nil || len(left) != 1 {
		t.Errorf("files: %q, %v", left, err)
	}
	if err := f.writeBytes(ctx, "/proc/no/such", nil); err == nil {
		t.Error("wrote into /proc")
	}
	if err := f.remove(ctx, filepath.Dir(name), filepath.Join(dir, "nothing")); err != nil {
		t.Error(err)
	}
}

// TestUploadTells how far it has come, piece by piece.
func TestUploadTells(t *testing.T) {
	f, dir := &files{runner: Here{}}, t.TempDir()
	t.Cleanup(f.close)
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, make([]byte, 2*writeChunk+5), 0o600); err != nil {
		t.Fatal(err)
	}
	var told []int64
	sent := &launcher.Meter{Report: func(p launcher.Progress) { told = append(told, p.Done) }}
	if err := f.upload(t.Context(), from, to, sent); err != nil {
		t.Fatal(err)
	}
	if want := []int64{writeChunk, 2 * writeChunk, 2*writeChunk + 5}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

// holding is a runner whose commands' standard error stays open when they have ended, as an ssh that leaves a master behind.
type holding struct{ Here }

func (holding) Command(ctx context.Context, argv ...string) *exec.Cmd {
	return Here{}.Command(ctx, append([]string{"sh", "-c", `sleep 5 & exec "$@"`, "sh"}, argv...)...)
}

// A session that has ended is not used again, even if its end was not noticed.
func TestFilesHeal(t *testing.T) {
	f, ctx := &files{runner: holding{}}, t.Context()
	if _, err := f.kind(ctx, "/"); err != nil {
		t.Fatal(err)
	}
	if err := f.session.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for ended := false; !ended; time.Sleep(time.Millisecond) {
		_, _, err := f.session.send("kind", map[string]any{"path": "/"})
		ended = err != nil
	}
	if kind, err := f.kind(ctx, "/"); err != nil || kind == "" {
		t.Errorf("after a cut: %q, %v", kind, err)
	}
	f.close()
}

// The keeper's last word may be heard before its result is seen, and before the nodes are free.
func TestLastWordIsNotTheEnd(t *testing.T) {
	c := &cluster{name: "x", record: &record{Spec: &spec.ClusterSpec{}}, state: &runstate.State{Phase: runstate.Gone, Exit: &runstate.Exit{Cause: "succeeded"}}}
	if s := c.living(Job{}); s.Phase != runstate.Draining || s.Exit != nil {
		t.Errorf("a cluster that Slurm has not released: %s, %+v", s.Phase, s.Exit)
	}
}

// A watch tells of the first look and of each change, and ends when the way is cut.
func TestFilesWatch(t *testing.T) {
	f, name := &files{runner: Here{}}, filepath.Join(t.TempDir(), "x")
	changes, err := f.watch(t.Context(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	<-changes
	if err := os.WriteFile(name, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	<-changes
	f.close()
	if _, open := <-changes; open {
		t.Error("a cut watch goes on")
	}
}
