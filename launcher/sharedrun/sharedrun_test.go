package sharedrun

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

func write(t *testing.T, path string, document any) {
	t.Helper()
	text, err := json.Marshal(document)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRead: a run is followed from its copies to its end, and nothing of it can be changed.
func TestRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "told")
	if _, _, err := Open(dir); launcher.ExitCode(err) != runstate.CodeSpec {
		t.Errorf("nothing there: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	st := &runstate.State{Revision: 3, Name: "told", Attempt: 1, Phase: runstate.Ready, Head: runstate.Head{Dashboard: "http://127.0.0.1:1", RayVersion: "2.60.0"}}
	write(t, filepath.Join(dir, keeper.StateFile), st)
	if err := os.WriteFile(filepath.Join(dir, keeper.DriverLog), []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, id, err := Open(dir)
	if err != nil || id != "told" {
		t.Fatal(id, err)
	}
	statuses, err := l.Watch(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if s := <-statuses; s.Phase != runstate.Ready || s.Ours || s.Owner == "" || s.Head.Dashboard != "" || s.Head.RayVersion != "2.60.0" {
		t.Errorf("%+v", s)
	}
	if _, err := l.Result(t.Context(), id); !errors.Is(err, launcher.ErrNotEnded) {
		t.Error(err)
	}
	st.Revision, st.Phase, st.Exit, st.Log = 4, runstate.Gone, &runstate.Exit{Cause: runstate.CauseDriverFailed, Code: 3, Origin: runstate.OriginDriver}, &runstate.Log{Bytes: 6}
	write(t, filepath.Join(dir, keeper.ResultFile), st)
	var last launcher.Status
	for last = range statuses {
	}
	r, err := l.Result(t.Context(), id)
	if err != nil || last.Exit == nil || r.Exit.Code != 3 || r.Log.Bytes != 6 {
		t.Errorf("%+v, %+v, %v", last, r, err)
	}
	log, err := r.OpenLog(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if text, err := io.ReadAll(log); err != nil || string(text) != "ello\n" {
		t.Errorf("%q, %v", text, err)
	}
	_, dial := l.Dial(t.Context(), id, launcher.Keeper)
	for what, err := range map[string]error{"dial": dial, "terminate": l.Terminate(t.Context(), id, launcher.End{})} {
		if launcher.ExitCode(err) != runstate.CodePermission {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestHostile: what the owner plants in place of the copies is not read, and blocks nobody.
func TestHostile(t *testing.T) {
	st := &runstate.State{Name: "told", Attempt: 2, Phase: runstate.Ready}
	plants := map[string]func(path string) error{
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link":      func(path string) error { return os.Symlink("secret", path) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a file of somebody else": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte("{}"), 0o600), os.Chown(path, 12346, -1))
		},
	}
	for what, plant := range plants {
		for _, name := range []string{keeper.StateFile, keeper.ResultFile, keeper.DriverLog, keeper.AttemptLog(1)} {
			t.Run(what+" as "+name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "told")
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if name != keeper.StateFile {
					write(t, filepath.Join(dir, keeper.StateFile), st)
				}
				write(t, filepath.Join(dir, "secret"), st)
				if os.Geteuid() == 0 { // the owner is another user than root, whose files all are read
					if err := errors.Join(os.Chown(dir, 12345, -1), chownAll(dir, 12345)); err != nil {
						t.Fatal(err)
					}
				}
				if err := plant(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
				l, id, err := Open(dir)
				if strings.HasSuffix(name, ".log") && err == nil {
					attempt := 0
					if name != keeper.DriverLog {
						attempt = 1
					}
					_, err = l.Log(t.Context(), attempt, 0)
				}
				if launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), name+" ") || !strings.Contains(err.Error(), "ask ") {
					t.Errorf("%s: %v", id, err)
				}
			})
		}
	}
}

func chownAll(dir string, uid int) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.Chown(filepath.Join(dir, e.Name()), uid, -1))
	}
	return err
}

// TestNoDocument: what is no document of a keeper.
func TestNoDocument(t *testing.T) {
	for what, text := range map[string]string{"another type": `{"attempt": "x"}`, "no JSON": "{", "nothing": "", "a list": "[]", "a time": `{"since": "yesterday"}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, keeper.ResultFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Open(dir); launcher.ExitCode(err) != runstate.CodeSpec {
			t.Errorf("%s: %v", what, err)
		}
	}
	dir := t.TempDir()
	large := filepath.Join(dir, keeper.ResultFile)
	if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, 1<<40)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir); launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("a large file: %v", err)
	}
}

// TestEndlessLog: the reader of a log ends with its context, however long the owner has made the file.
func TestEndlessLog(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, keeper.StateFile), &runstate.State{Name: "told", Attempt: 1})
	log := filepath.Join(dir, keeper.DriverLog)
	if err := errors.Join(os.WriteFile(log, nil, 0o600), os.Truncate(log, 1<<42)); err != nil {
		t.Fatal(err)
	}
	l, _, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := l.Log(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.CopyN(io.Discard, r, 1<<20); err != nil {
		t.Error(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestNotPermitted: the message names what the owner has to do.
func TestNotPermitted(t *testing.T) {
	err := (&Launcher{dir: "/shared/a"}).failed(fs.ErrPermission)
	if launcher.ExitCode(err) != runstate.CodePermission || !strings.Contains(err.Error(), "not permitted to read /shared/a: ") || !strings.Contains(err.Error(), "chmod 2770 DIR") {
		t.Error(err)
	}
}
