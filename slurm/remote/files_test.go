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
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/test/needs"
)

// onPython is a login node whose python3 is this one.
type onPython struct {
	Here
	path string
}

func (r onPython) Command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := r.Here.Command(ctx, argv...)
	cmd.Env = append(os.Environ(), "PATH="+r.path+":"+os.Getenv("PATH"))
	return cmd
}

// onEachPython runs a test with the machine's python3 and with Python 3.6: login nodes have no other one for rayctl.
func onEachPython(t *testing.T, run func(t *testing.T, r Runner)) {
	t.Run("python3", func(t *testing.T) { run(t, Here{}) })
	t.Run("3.6", func(t *testing.T) {
		python, r := needs.Python36(t, ""), onPython{path: t.TempDir()}
		if err := needs.AsPython3(python, r.path); err != nil {
			t.Fatal(err)
		}
		if out, err := r.Command(t.Context(), "sh", "-c", "python3 --version").Output(); err != nil || !bytes.HasPrefix(out, []byte("Python 3.6.")) {
			t.Fatalf("python3 is %q, %v", out, err)
		}
		run(t, r)
	})
}

func TestFiles(t *testing.T) { onEachPython(t, filesOn) }

func filesOn(t *testing.T, r Runner) {
	f, ctx, dir := NewFiles(r), t.Context(), t.TempDir()
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
	if end, size, err := f.End(ctx, name, 1000); err != nil || size != int64(len(content)) || !bytes.Equal(end, content[len(content)-1000:]) {
		t.Errorf("the end has %d of %d bytes: %v", len(end), size, err)
	}
	notRegular(t, f, name)
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

// notRegular: the end of a file is not that of something that a job has put in its place.
func notRegular(t *testing.T, f *Files, file string) {
	t.Helper()
	dir := t.TempDir()
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.Symlink(file, link), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, pipe, dir} {
		if text, _, err := f.End(t.Context(), path, 1000); err == nil {
			t.Errorf("%s has the end %q", path, text)
		}
	}
	if _, _, err := f.End(t.Context(), filepath.Join(dir, "nothing"), 1000); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestAfter: what clients ask about an attempt that ended without a result.
func TestAfter(t *testing.T) { onEachPython(t, afterOn) }

func afterOn(t *testing.T, r Runner) {
	f, ctx, dir := NewFiles(r), t.Context(), t.TempDir()
	t.Cleanup(f.Close)
	attempt := filepath.Join(dir, "1")
	for name, text := range map[string]string{
		"current": `{"attempt": "1"}`, "1/orders.json": `{"job": {"restarts": {"nodeFailure": 1}}}`, "1/state.json": `{"phase": "Ready"}`,
		"1/driver.log": "one\n", "1/nodes/w/job.log.from-4": "two\n", "slurm.out": "*** JOB 2 ON node2 CANCELLED AT x DUE TO NODE FAILURE, SEE y ***\n",
	} {
		if err := f.WriteBytes(ctx, filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	ask := map[string]any{"attempt": attempt, "log": "/tmp/job.log", "begin": 0}
	for _, op := range []string{"saved", "salvage"} {
		var found struct{ Whole bool }
		if err := f.Call(ctx, op, ask, &found); err != nil || !found.Whole {
			t.Errorf("%s: %+v, %v", op, found, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(attempt, "driver.log")); string(text) != "one\ntwo\n" {
		t.Errorf("salvaged %q, %v", text, err)
	}
	var why struct {
		Cause         string
		Told, Allowed bool
	}
	if err := f.Call(ctx, "again", map[string]any{"run": dir}, &why); err != nil || why.Cause != "lost" || !why.Told || !why.Allowed {
		t.Errorf("again: %+v, %v", why, err)
	}
	moved := filepath.Join(dir, "new")
	for op, request := range map[string]map[string]any{"make": {"path": moved, "mode": 0o755}, "touch": {"path": attempt}} {
		if err := f.Call(ctx, op, request, nil); err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
	if err := errors.Join(f.Call(ctx, "rename", map[string]any{"path": attempt, "to": moved + "/1"}, nil), f.Remove(ctx, moved)); err != nil {
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
func TestFilesWatch(t *testing.T) { onEachPython(t, watchOn) }

func watchOn(t *testing.T, r Runner) {
	f, name := NewFiles(r), filepath.Join(t.TempDir(), "x")
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
