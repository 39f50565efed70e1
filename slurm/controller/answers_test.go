package controller

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/wholefile"
)

// A proxy before slurmrestd may ask for an hour's patience (Retry-After, RFC 9110, 10.2.3), and what slurm.restUrl names by mistake may never end.
func TestAnswersOfOthers(t *testing.T) {
	resp := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"3600"}}}
	if wait := backoff(time.Millisecond, time.Second, 1, resp); wait != longestWait {
		t.Errorf("it waits %s", wait)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, zeroes{}) // until the client leaves
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := wholefile.Write(token, []byte("a.b.c"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := NewREST(server.URL, token).Jobs(t.Context())
	if launcher.ExitCode(err) != runstate.CodeUnreachable || !strings.Contains(err.Error(), "is too long") {
		t.Errorf("an answer without an end: %v (code %d)", err, launcher.ExitCode(err))
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
