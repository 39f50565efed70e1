package result

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestRecord runs the record, as its pod does, against a keeper's API that has ended (a fake: it answers as the keeper's pod does).
func TestRecord(t *testing.T) {
	small := []byte("hello\r\n\xff no newline")
	large := bytes.Repeat([]byte("a line that is repeated very often\n"), 200_000)
	for name, log := range map[string][]byte{"as it is": small, "packed": large, "empty": nil} {
		t.Run(name, func(t *testing.T) {
			st := &runstate.State{Revision: 3, Name: "c", Phase: "Gone", Exit: &runstate.Exit{Origin: "driver", Cause: "driver-failed", Code: 3}, Log: &runstate.Log{Bytes: int64(len(log))}}
			for i := range 100 { // more than fits as it is
				st.Timeline = append(st.Timeline, runstate.Event{Kind: "node", To: "ALIVE", Code: strconv.Itoa(i), Message: strings.Repeat("m", 50)})
			}
			message, out := runRecord(t, st, log)
			got := decodeState(message)
			if got == nil || got.Exit.Code != 3 || len(got.Timeline) != 100 || len(message) > 4096 {
				t.Fatalf("the termination message of %d bytes: %+v", len(message), got)
			}
			saved := out
			if got.Packed {
				if len(out) > len(log)/10 {
					t.Errorf("%d bytes were packed into %d", len(log), len(out))
				}
				var err error
				if saved, err = io.ReadAll(newUnpacker(bytes.NewReader(out))); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(unpackedByHand(t, out), log) {
					t.Error("the command in its first line does not unpack it")
				}
			}
			if !bytes.Equal(saved, log) || got.Packed != (name == "packed") {
				t.Errorf("packed %v, %d bytes, want %d", got.Packed, len(saved), len(log))
			}
		})
	}
}

// unpackedByHand runs the command in the first line of a packed log, which is there for people without rayctl.
func unpackedByHand(t *testing.T, log []byte) []byte {
	t.Helper()
	hint, _, _ := bytes.Cut(log, []byte("\n"))
	_, command, found := strings.Cut(string(hint), "kubectl logs job/NAME-record | ")
	if !found {
		t.Fatalf("no command in %q", hint)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Stdin = bytes.NewReader(log)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// keeperPacks makes what a keeper serves of submitted jobs.
const keeperPacks = `
import sys
sys.path.insert(0, "../../keeper")
from rayctl_keeper.node.files import jobpack
jobpack.write(sys.argv[1])
`

// TestKeptJobs reads back from the record's log what the keeper has kept of submitted jobs.
func TestKeptJobs(t *testing.T) {
	dir := t.TempDir()
	large := make([]byte, 5<<20)
	rand.NewChaCha8([32]byte{}).Read(large)
	want := map[string][]byte{
		"orders.json": []byte(`{"start": {"mode": "external"}}`), "submissions.json": []byte(`[{"submission_id": "a"}]`),
		"jobs/a.log": []byte("first\r\n\xff"), "jobs/\u00fc '\n.log": nil, "jobs/" + strings.Repeat("n", 200) + ".log": large,
	}
	if err := os.Mkdir(filepath.Join(dir, "jobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range want {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "python3", "-s", "-B", "-c", keeperPacks, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	packed, err := os.ReadFile(filepath.Join(dir, "jobs.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	st := &runstate.State{Revision: 1, Exit: &runstate.Exit{Origin: "rayctl", Cause: "down"}, Log: &runstate.Log{}}
	message, out := runRecord(t, st, nil, packed...)
	if got := decodeState(message); got == nil || !got.Jobs {
		t.Fatalf("the termination message: %s", message)
	}
	delete(want, "orders.json")
	for name, content := range want {
		r, err := jobsFile(bytes.NewReader(out), name)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%q: %d bytes, want %d, %v", name, len(got), len(content), err)
		}
	}
	if _, err := jobsFile(bytes.NewReader(out), "jobs/other.log"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a job that is not there: %v", err)
	}
	for name, part := range map[string][]byte{"the end": out[:len(out)/2], "the beginning": out[1000:], "all": nil} {
		if _, err := jobsFile(bytes.NewReader(part), "jobs/other.log"); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
}

// TestRotatedLog: the beginning is gone, in the middle of a line.
func TestRotatedLog(t *testing.T) {
	log := bytes.Repeat([]byte("0123456789abcde\n"), 300_000)
	_, out := runRecord(t, &runstate.State{Revision: 1, Exit: &runstate.Exit{}, Log: &runstate.Log{Bytes: int64(len(log))}}, log)
	u := newUnpacker(bytes.NewReader(out[bytes.IndexByte(out, '\n')+100:]))
	rest, err := io.ReadAll(u)
	if err != nil || u.at != 1<<20 || !bytes.Equal(rest, log[u.at:]) {
		t.Errorf("from byte %d: %d bytes, %v", u.at, len(rest), err)
	}
}

// TestEarlierAttempts keeps the logs apart that stand one after the other.
func TestEarlierAttempts(t *testing.T) {
	st := &runstate.State{Revision: 1, Attempt: 3, Exit: &runstate.Exit{}, Log: &runstate.Log{Bytes: 5}}
	message, out := runRecord(t, st, []byte("third"))
	got := decodeState(message)
	if string(out) != "log 1;log 2;third" || len(got.Earlier) != 2 {
		t.Fatalf("%q, %v", out, got.Earlier)
	}
	s := &Log{parts: append(got.Earlier, got.Log.Bytes)}
	for attempt, want := range map[int]string{1: "log 1;", 2: "log 2;", 3: "third", 0: "third"} {
		if from, to := s.part(attempt); string(out[from:to]) != want {
			t.Errorf("attempt %d: %q", attempt, out[from:to])
		}
	}
}

// absence runs the record where the keeper's name is unknown for twenty minutes by a clock of its own: CoreDNS answers that for a headless
// Service without pods, and the Job controller waits up to ten minutes before it makes another pod.
const absence = `
import socket, sys
sys.path.insert(0, "../../keeper")
from rayctl_keeper.kubernetes import record
waited, known = [0.0], socket.getaddrinfo
def sleep(seconds):
    waited[0] += seconds
def lookup(*args, **kwargs):
    if waited[0] < 1200 and socket.AI_NUMERICHOST not in args:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return known(*args, **kwargs)
record.time.sleep, record.time.monotonic, socket.getaddrinfo = sleep, lambda: waited[0], lookup
sys.exit(record.main(sys.argv[1:]))
`

// stale runs the record where the keeper's name first means an address from which nothing comes back, not even a refusal, as that of a pod
// that is gone: here a socket whose queue of connections is full, on the keeper's port of another loopback address.
const stale = `
import socket, sys
sys.path.insert(0, "../../keeper")
from rayctl_keeper.kubernetes import record
silent = socket.socket()
silent.bind(("127.0.0.2", int(sys.argv[1].rpartition(":")[2])))
silent.listen(0)
queued = [socket.socket() for _ in range(8)]
for s in queued:
    s.setblocking(False)
    s.connect_ex(silent.getsockname())
record.LONG_POLL, looked, known = 600, [], socket.getaddrinfo
def lookup(host, *args, **kwargs):
    if host != "localhost" or socket.AI_NUMERICHOST in args:
        return known(host, *args, **kwargs)
    looked.append(1)
    return known("127.0.0.2" if len(looked) == 1 else "127.0.0.1", *args, **kwargs)
socket.getaddrinfo = lookup
code = record.main(sys.argv[1:])
sys.exit(code if len(looked) > 1 else "the silent address was not tried")
`

// unserved runs the record where the name service answers once and never again.
const unserved = `
import socket, sys, threading
sys.path.insert(0, "../../keeper")
from rayctl_keeper.kubernetes import record
from rayctl_keeper.ray import addresses
addresses.FRESH, looked, known = 0.0, [], socket.getaddrinfo
def lookup(host, *args, **kwargs):
    if host != "localhost" or socket.AI_NUMERICHOST in args:
        return known(host, *args, **kwargs)
    looked.append(1)
    if len(looked) > 1:
        threading.Event().wait()
    return known("127.0.0.1", *args, **kwargs)
socket.getaddrinfo = lookup
code = record.main(sys.argv[1:])
sys.stdout.flush()
record.os._exit(code if len(looked) > 1 else 9)
`

// TestKeeperAway: the record waits for a keeper that takes long to start or to start again, and resolves its address again.
func TestKeeperAway(t *testing.T) {
	for name, script := range map[string]string{"unknown name": absence, "stale address": stale, "no name service": unserved} {
		t.Run(name, func(t *testing.T) {
			st := &runstate.State{Revision: 1, Exit: &runstate.Exit{Origin: "driver", Cause: "succeeded"}, Log: &runstate.Log{Bytes: 5}}
			var recorded atomic.Bool
			server := httptest.NewServer(endedKeeper(t, st, []byte("late\n"), &recorded))
			defer server.Close()
			cmd, termination := recordCommand(t, strings.Replace(server.URL, "127.0.0.1", "localhost", 1), "-c", script)
			out, err := cmd.Output()
			if err != nil || string(out) != "late\n" {
				t.Errorf("%q, %v", out, err)
			}
			if got := decodeState(contentOf(t, termination)); got == nil || got.Exit.Cause != "succeeded" || !recorded.Load() {
				t.Errorf("%+v, recorded %v", got, recorded.Load())
			}
		})
	}
}

// TestClusterDeleted: the record reports what it saw when the Secret's files are removed or replaced by those of another cluster of that name.
func TestClusterDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		committed bool
		token     string // afterwards; "": none
		want      string
	}{
		"running": {true, "", runstate.CauseLost}, "never committed": {false, "", runstate.CauseAbandoned}, "its name is another's": {true, "other", runstate.CauseLost},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{})
			var first sync.Once
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("after") != "-1" {
					first.Do(func() { close(asked) })
					<-r.Context().Done() // there is no news
					return
				}
				_ = json.NewEncoder(w).Encode(&runstate.State{Revision: 1, Committed: c.committed})
			}))
			defer server.Close()
			cmd, termination := recordCommand(t, server.URL, "../../keeper", keeperzip.Record)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-asked
			token := cmd.Args[len(cmd.Args)-1]
			if err := os.Remove(token); err != nil {
				t.Fatal(err)
			}
			if c.token != "" {
				if err := os.WriteFile(token, []byte(c.token), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			server.CloseClientConnections()
			server.Close()
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			got := decodeState(contentOf(t, termination))
			if got == nil || got.Exit.Cause != c.want {
				t.Fatalf("%+v, want %s", got, c.want)
			}
			asCommitted(&batchv1.Job{}, got)
			if got.Exit.Cause != c.want {
				t.Errorf("without the mark of a commit: %+v", got.Exit)
			}
			asCommitted(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{objects.AnnotationCommitted: "true"}}}, got)
			if got.Exit.Cause != runstate.CauseLost || got.Exit.Code != runstate.CodeLost {
				t.Errorf("with the mark of a commit: %+v", got.Exit)
			}
		})
	}
}

// runRecord runs the record. jobs: what the keeper serves of submitted jobs; none if there are none.
func runRecord(t *testing.T, st *runstate.State, log []byte, jobs ...byte) (message string, out []byte) {
	t.Helper()
	var recorded atomic.Bool
	server := httptest.NewServer(endedKeeper(t, st, log, &recorded, jobs...))
	defer server.Close()
	cmd, termination := recordCommand(t, server.URL, "../../keeper", keeperzip.Record)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !recorded.Load() {
		t.Error("the keeper was not told that its result is saved")
	}
	return contentOf(t, termination), out
}

// endedKeeper answers as the keeper's pod does.
func endedKeeper(t *testing.T, st *runstate.State, log []byte, recorded *atomic.Bool, jobs ...byte) http.HandlerFunc {
	t.Helper()
	document, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer t0ken":
			http.Error(w, "no token", http.StatusUnauthorized)
		case r.URL.Path == "/v1/state":
			w.Write(document)
		case r.URL.Path == "/v1/log":
			if attempt := r.URL.Query().Get("attempt"); attempt != "" {
				w.Write([]byte("log " + attempt + ";"))
				return
			}
			offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
			w.Write(log[offset:])
		case r.URL.Path == "/v1/jobs" && jobs != nil:
			w.Header().Set("Content-Length", strconv.Itoa(len(jobs)))
			w.Write(jobs)
		case r.URL.Path == "/v1/jobs":
			http.NotFound(w, r)
		case r.URL.Path == "/v1/recorded" && r.Method == http.MethodPost:
			recorded.Store(true)
			w.Write(document)
		}
	}
}

// patience bounds a record that does not end.
const patience = 10 * time.Minute

// recordCommand runs a program as the record's pod does, from the sources; its last argument is the file with the token.
func recordCommand(t *testing.T, url string, program ...string) (cmd *exec.Cmd, termination string) {
	t.Helper()
	dir := t.TempDir()
	token, termination := filepath.Join(dir, "token"), filepath.Join(dir, "termination")
	if err := os.WriteFile(token, []byte("t0ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, "python3", slices.Concat([]string{"-s"}, program, []string{url, token})...)
	cmd.Env = append(os.Environ(), "RAYCTL_TERMINATION_LOG="+termination, "TMPDIR="+dir, "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	return cmd, termination
}

func contentOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
