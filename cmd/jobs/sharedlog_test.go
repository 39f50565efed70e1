package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// stages goes on with a run's copies each time that a text was shown.
type stages struct {
	bytes.Buffer
	next []stage
}

type stage struct {
	shown string
	then  func()
}

func (s *stages) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	if len(s.next) > 0 && strings.Contains(s.String(), s.next[0].shown) {
		then := s.next[0].then
		s.next = s.next[1:]
		then()
	}
	return n, err
}

// TestFollowShared: `logs -f DIR` follows a run that another user shares, through its attempts and to its end, and has the driver's exit code.
func TestFollowShared(t *testing.T) {
	for name, c := range map[string]struct {
		args, want string
	}{
		"whole": {"", "first\na\nb\nc\n"}, "tail": {" --tail 1", "a\nb\nc\n"}, "one attempt": {" --attempt 1", "first\na\nb\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := func(name string) string { return filepath.Join(dir, name) }
			st := runstate.State{Revision: 1, Name: "told", Attempt: 1, Phase: runstate.Ready, Job: &runstate.Job{SubmissionID: "told-1"}}
			put := func(name string) {
				text, err := json.Marshal(st)
				if err := errors.Join(err, os.WriteFile(path(name), text, 0o600)); err != nil {
					t.Error(err)
				}
			}
			write := func(text string) {
				log, err := os.OpenFile(path(keeper.DriverLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				if err != nil {
					t.Error(err)
					return
				}
				_, err = log.WriteString(text)
				if err := errors.Join(err, log.Close()); err != nil {
					t.Error(err)
				}
			}
			write("first\na\n")
			put(keeper.StateFile)
			out := &stages{next: []stage{
				{"a\n", func() { write("b\n") }},
				{"b\n", func() {
					if err := os.Rename(path(keeper.DriverLog), path(keeper.AttemptLog(1))); err != nil {
						t.Error(err)
					}
					write("c\n")
					four := 4
					st.Revision, st.Attempt, st.Job.SubmissionID = 2, 2, "told-2"
					st.Attempts = []runstate.Attempt{{Attempt: 1, SubmissionID: "told-1", Cause: runstate.CauseDriverFailed, ExitCode: &four}}
					put(keeper.StateFile)
				}},
				{"c\n", func() {
					st.Revision, st.Phase, st.Exit = 3, runstate.Gone, &runstate.Exit{Cause: runstate.CauseDriverFailed, Code: 3, Origin: runstate.OriginDriver, Message: "the driver exited with code 3"}
					put(keeper.ResultFile)
				}},
			}}
			a, _, stderr := apptest.New()
			a.Out = out
			code := 3
			if name == "one attempt" {
				code = 4
			}
			if got := a.Execute(t.Context(), verbs, strings.Fields("logs -f "+dir+c.args)); got != code || out.String() != c.want {
				t.Errorf("code %d, output %q, want %d, %q; stderr %q", got, out.String(), code, c.want, stderr)
			}
			if end := "the driver exited with code 3"; (code == 3) != strings.Contains(stderr.String(), end) {
				t.Errorf("stderr: %q", stderr)
			}
		})
	}
}

// TestFollowSharedLongLine: a line of any length, as of a progress bar, is shown whole from its beginning, and is not kept in memory.
func TestFollowSharedLongLine(t *testing.T) {
	const long, most = 128 << 20, 16 << 20
	dir := t.TempDir()
	st := runstate.State{Revision: 1, Name: "told", Attempt: 1, Phase: runstate.Ready, Job: &runstate.Job{SubmissionID: "told-1"}}
	put := func(name string) error {
		text, err := json.Marshal(st)
		return errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	log := filepath.Join(dir, keeper.DriverLog)
	if err := errors.Join(put(keeper.StateFile), os.WriteFile(log, []byte("first\n"), 0o600), os.Truncate(log, long)); err != nil {
		t.Fatal(err)
	}
	out := &counted{then: func() {
		f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Error(err)
			return
		}
		_, err = f.WriteString("\nlast\n")
		st.Revision, st.Phase, st.Exit = 2, runstate.Gone, &runstate.Exit{Cause: runstate.CauseSucceeded, Origin: runstate.OriginDriver}
		if err := errors.Join(err, f.Close(), put(keeper.ResultFile)); err != nil {
			t.Error(err)
		}
	}}
	a, _, stderr := apptest.New()
	a.Out = out
	before := inUse()
	if code := a.Execute(t.Context(), verbs, strings.Fields("logs -f --tail 1 "+dir)); code != 0 {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
	if want := int64(long - len("first\n") + len("\nlast\n")); out.size != want || !strings.HasSuffix(out.end, "\x00\nlast\n") {
		t.Errorf("%d bytes, want %d; the end: %q", out.size, want, out.end)
	}
	if kept := int64(out.memory) - int64(before); kept > most {
		t.Errorf("%d MiB are in memory when the line is shown", kept>>20)
	}
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// counted notes how much memory is in use at the first byte.
type counted struct {
	then   func()
	size   int64
	memory uint64
	end    string
}

func (c *counted) Write(p []byte) (int, error) {
	if c.size == 0 {
		c.memory = inUse()
		c.then()
	}
	c.size += int64(len(p))
	c.end += string(p[max(0, len(p)-10):])
	c.end = c.end[max(0, len(c.end)-10):]
	return len(p), nil
}

// TestPlantedLog: what the owner of a shared run plants in place of the output is neither read nor waited for; the same for an output without end.
func TestPlantedLog(t *testing.T) {
	plants := map[string]func(path string) error{
		"is no regular file": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"is a link":          func(path string) error { return os.Symlink("state.json", path) },
	}
	for want, plant := range plants {
		dir := t.TempDir()
		if err := errors.Join(os.WriteFile(filepath.Join(dir, keeper.StateFile), []byte(`{"name": "told", "attempt": 1, "phase": "Ready", "job": {"submissionId": "told-1"}}`), 0o600),
			plant(filepath.Join(dir, keeper.DriverLog))); err != nil {
			t.Fatal(err)
		}
		for _, args := range []string{"logs DIR", "logs DIR -f", "logs DIR --tail 1", "logs DIR -f --attempt 1"} {
			a, out, stderr := apptest.New()
			code := a.Execute(t.Context(), verbs, strings.Fields(strings.Replace(args, "DIR", dir, 1)))
			if said := stderr.String(); code != runstate.CodeSpec || out.Len() > 0 || !strings.Contains(said, keeper.DriverLog+" "+want) || !strings.Contains(said, "ask ") {
				t.Errorf("%s: code %d, stdout %q, stderr %q", args, code, out, said)
			}
		}
	}
	dir := t.TempDir()
	log := filepath.Join(dir, keeper.DriverLog)
	if err := errors.Join(os.WriteFile(filepath.Join(dir, keeper.StateFile), []byte(`{"name": "told", "attempt": 1, "phase": "Ready", "job": {"submissionId": "told-1"}}`), 0o600),
		os.WriteFile(log, []byte("begin\n"), 0o600), os.Truncate(log, 1<<42)); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"logs DIR", "logs DIR -f"} {
		ctx, cancel := context.WithCancel(t.Context())
		a, _, _ := apptest.New()
		a.Out = &interrupter{cancel: cancel}
		if code := a.Execute(ctx, verbs, strings.Fields(strings.Replace(args, "DIR", dir, 1))); code != runstate.CodeInterrupted {
			t.Errorf("%s: code %d", args, code)
		}
	}
}

// interrupter interrupts the command as soon as it has shown something.
type interrupter struct{ cancel context.CancelFunc }

func (i *interrupter) Write(p []byte) (int, error) {
	i.cancel()
	return len(p), nil
}
