package sharedrun

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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

// TestHostile: documents that would block or fill the reader are not read.
func TestHostile(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, keeper.StateFile), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, _, err := Open(dir); done <- err }()
	select {
	case err := <-done:
		if launcher.ExitCode(err) != runstate.CodeSpec {
			t.Errorf("a pipe: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a pipe blocks the reader")
	}
	large := filepath.Join(dir, keeper.ResultFile)
	if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, largestState+1)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir); launcher.ExitCode(err) != runstate.CodeSpec {
		t.Errorf("a large file: %v", err)
	}
}

// TestNotPermitted: the message names what the owner has to do.
func TestNotPermitted(t *testing.T) {
	err := (&Launcher{dir: "/shared/a"}).failed(fs.ErrPermission)
	if launcher.ExitCode(err) != runstate.CodePermission || !strings.Contains(err.Error(), "not permitted to read /shared/a: ") || !strings.Contains(err.Error(), "chmod 2770 DIR") {
		t.Error(err)
	}
}
