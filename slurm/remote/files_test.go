package remote

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
)

func TestFiles(t *testing.T) {
	f, ctx, dir := NewFiles(Here{}), t.Context(), t.TempDir()
	t.Cleanup(f.Close)
	name, content := filepath.Join(dir, "sub", "a b$(id)'\"\n"), make([]byte, 3<<20+5)
	_, _ = rand.Read(content) // never fails (crypto/rand)
	if err := f.Write(ctx, name, bytes.NewReader(content), true); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := f.Write(ctx, name, bytes.NewReader(nil), true); !errors.Is(err, os.ErrExist) {
		t.Errorf("written twice: %v", err)
	}
	got, err := io.ReadAll(f.Reader(ctx, name, 7))
	if err != nil || !bytes.Equal(got, content[7:]) {
		t.Errorf("read %d bytes: %v", len(got), err)
	}
	if left, err := f.Names(ctx, filepath.Dir(name)); err != nil || len(left) != 1 {
		t.Errorf("files: %q, %v", left, err)
	}
	if err := f.WriteBytes(ctx, "/proc/no/such", nil); err == nil {
		t.Error("wrote into /proc")
	}
	if err := f.Remove(ctx, filepath.Dir(name), filepath.Join(dir, "nothing")); err != nil {
		t.Error(err)
	}
}

// TestUploadTells how far it has come, piece by piece.
func TestUploadTells(t *testing.T) {
	f, dir := NewFiles(Here{}), t.TempDir()
	t.Cleanup(f.Close)
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, make([]byte, 2*writeChunk+5), 0o600); err != nil {
		t.Fatal(err)
	}
	var told []int64
	sent := &launcher.Meter{Report: func(p launcher.Progress) { told = append(told, p.Done) }}
	if err := f.Upload(t.Context(), from, to, sent); err != nil {
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
	f, ctx := NewFiles(holding{}), t.Context()
	if _, err := f.Kind(ctx, "/"); err != nil {
		t.Fatal(err)
	}
	if err := f.session.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for ended := false; !ended; time.Sleep(time.Millisecond) {
		_, _, err := f.session.send("kind", map[string]any{"path": "/"})
		ended = err != nil
	}
	if kind, err := f.Kind(ctx, "/"); err != nil || kind == "" {
		t.Errorf("after a cut: %q, %v", kind, err)
	}
	f.Close()
}

// A watch reports the first state and each change, and ends when the connection is lost.
func TestFilesWatch(t *testing.T) {
	f, name := NewFiles(Here{}), filepath.Join(t.TempDir(), "x")
	changes, err := f.Watch(t.Context(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	<-changes
	if err := os.WriteFile(name, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	<-changes
	f.Close()
	if _, open := <-changes; open {
		t.Error("a cut watch goes on")
	}
}
