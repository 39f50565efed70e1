package kuberay

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
)

// TestRecord runs record.py, as the record's pod does, against a keeper's API that has ended (a fake: it answers as keeperpod.py does).
func TestRecord(t *testing.T) {
	small := []byte("hello\r\n\xff no newline")
	large := bytes.Repeat([]byte("a line that is repeated very often\n"), 200_000)
	for name, log := range map[string][]byte{"as it is": small, "packed": large, "empty": nil} {
		t.Run(name, func(t *testing.T) {
			st := &keeper.State{Revision: 3, Name: "c", Phase: "Gone", Exit: &keeper.Exit{Origin: "driver", Cause: "driver-failed", Code: 3}, Log: &keeper.Log{Bytes: int64(len(log))}}
			for i := range 100 { // more than fits as it is
				st.Timeline = append(st.Timeline, keeper.Event{Event: "node", To: "ALIVE", Code: strconv.Itoa(i), Message: strings.Repeat("m", 50)})
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
			}
			if !bytes.Equal(saved, log) || got.Packed != (name == "packed") {
				t.Errorf("packed %v, %d bytes, want %d", got.Packed, len(saved), len(log))
			}
		})
	}
}

// TestRotatedLog: the beginning is gone, in the middle of a line.
func TestRotatedLog(t *testing.T) {
	log := bytes.Repeat([]byte("0123456789abcde\n"), 300_000)
	_, out := runRecord(t, &keeper.State{Revision: 1, Exit: &keeper.Exit{}, Log: &keeper.Log{Bytes: int64(len(log))}}, log)
	u := newUnpacker(bytes.NewReader(out[100:]))
	rest, err := io.ReadAll(u)
	if err != nil || u.at != 1<<20 || !bytes.Equal(rest, log[u.at:]) {
		t.Errorf("from byte %d: %d bytes, %v", u.at, len(rest), err)
	}
}

// TestEarlierAttempts keeps the logs apart that stand one after the other.
func TestEarlierAttempts(t *testing.T) {
	st := &keeper.State{Revision: 1, Attempt: 3, Exit: &keeper.Exit{}, Log: &keeper.Log{Bytes: 5}}
	message, out := runRecord(t, st, []byte("third"))
	got := decodeState(message)
	if string(out) != "log 1;log 2;third" || len(got.Earlier) != 2 {
		t.Fatalf("%q, %v", out, got.Earlier)
	}
	s := &savedLog{parts: append(got.Earlier, got.Log.Bytes)}
	for attempt, want := range map[int]string{1: "log 1;", 2: "log 2;", 3: "third", 0: "third"} {
		if from, to := s.part(attempt); string(out[from:to]) != want {
			t.Errorf("attempt %d: %q", attempt, out[from:to])
		}
	}
}

func runRecord(t *testing.T, st *keeper.State, log []byte) (message string, out []byte) {
	t.Helper()
	document, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	recorded := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer t0ken":
			http.Error(w, "no token", http.StatusUnauthorized)
		case r.URL.Path == "/v1/state":
			w.Write(document)
		case r.URL.Path == "/v1/log":
			offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
			w.Write(log[offset:])
		case strings.HasPrefix(r.URL.Path, "/v1/attempts/"):
			w.Write([]byte("log " + r.URL.Path[len("/v1/attempts/"):][:1] + ";"))
		case r.URL.Path == "/v1/recorded" && r.Method == http.MethodPost:
			recorded = true
			w.Write(document)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	token, termination := filepath.Join(dir, "token"), filepath.Join(dir, "termination")
	if err := os.WriteFile(token, []byte("t0ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-s", "pod/record.py", server.URL, token)
	cmd.Env = append(os.Environ(), "RAYCTL_TERMINATION_LOG="+termination, "TMPDIR="+dir, "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	if out, err = cmd.Output(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(termination)
	if err != nil || !recorded {
		t.Fatalf("recorded %v, %v", recorded, err)
	}
	return string(text), out
}
