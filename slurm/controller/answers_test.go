package controller

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sharedfile"
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
	if err := sharedfile.Write(token, []byte("a.b.c"), 0o600); err != nil {
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

// cutOnce is a connection that is cut under its first command, as a shared one of OpenSSH: the command's ssh exits with 255 and says nothing.
type cutOnce struct{ ran int }

func (*cutOnce) String() string { return "login" }

func (c *cutOnce) Command(ctx context.Context, argv ...string) *exec.Cmd {
	c.ran++
	if c.ran == 1 {
		return exec.CommandContext(ctx, "sh", "-c", "exit 255")
	}
	return exec.CommandContext(ctx, argv[0], argv[1:]...)
}

// A question is asked again after a cut, a submission is not: the job may be there.
func TestConnectionCut(t *testing.T) {
	r := &cutOnce{}
	if out, err := Run(t.Context(), r, "echo", "an answer"); err != nil || out != "an answer\n" || r.ran != 2 {
		t.Errorf("%q, %v after %d commands", out, err, r.ran)
	}
	r = &cutOnce{}
	_, err := Commands{Runner: r}.Submit(t.Context(), Batch{File: "job.sh"})
	if !Away(err) || err.Error() != "sbatch: no answer (exit status 255)" || r.ran != 1 {
		t.Errorf("%v after %d commands", err, r.ran)
	}
}

// registering is a controller whose nodes register between a refusal and the question for those that have not: as often as refusals says it refuses a request.
type registering struct{ asked, refusals int }

func (*registering) String() string { return "login" }

func (r *registering) Command(ctx context.Context, argv ...string) *exec.Cmd {
	if !strings.Contains(strings.Join(argv, " "), "--test-only") {
		return exec.CommandContext(ctx, argv[0], append(argv[1:3:3], argv[3], "true")...) // sinfo: no node is unknown
	}
	r.asked++
	answer := "echo 'sbatch: Job 39 to start at 1795253221 using 2 processors on nodes node[1-2] in partition main' >&2"
	if r.asked <= r.refusals {
		answer = "echo 'allocation failure: Requested node configuration is not available' >&2; exit 1"
	}
	return exec.CommandContext(ctx, argv[0], append(argv[1:3:3], argv[3], "sh", "-c", answer)...)
}

func TestNodesRegister(t *testing.T) {
	r := &registering{refusals: 1}
	if start, err := (Commands{Runner: r}).PlannedStart(t.Context(), Batch{File: "job.sh"}); err != nil || start.Unix() != 1795253221 {
		t.Errorf("nodes that have registered since: %s, %v", start, err)
	}
	r = &registering{refusals: 3}
	if _, err := (Commands{Runner: r}).PlannedStart(t.Context(), Batch{File: "job.sh"}); err == nil || r.asked != 2 {
		t.Errorf("nodes that no file describes: %v after %d questions", err, r.asked)
	}
}
