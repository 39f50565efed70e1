package conformance

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
)

// rayToken is Ray's token, and the file in which commands on the head find it.
type rayToken struct{ token, file string }

// tokenNow is that of the present head; it is empty after an error, because another goroutine than the test's may ask for it.
func (s *suite) tokenNow(t *testing.T, id launcher.ID) (found rayToken) {
	e, err := s.l.Dial(s.context(t), id, launcher.Dashboard)
	if err != nil {
		t.Errorf("reach the dashboard: %v", err)
		return found
	}
	defer e.Close()
	found.token = e.Token
	var out bytes.Buffer
	if code, err := s.l.Exec(s.context(t), id, launcher.ExecRequest{Command: []string{"printenv", "RAY_AUTH_TOKEN_PATH"}, Stdout: &out, Stderr: io.Discard}); err != nil || code != 0 {
		t.Errorf("exec on the head: code %d, %v", code, err)
	}
	found.file = strings.TrimSpace(out.String())
	return found
}

// anotherToken: the head that was started again refuses the token of the one before, and Ray's tools reach it with its own. A shell that was opened on the head before
// finds no token: it would send it to that head's address, where anybody may listen now.
func (s *suite) anotherToken(t *testing.T, id launcher.ID, before rayToken) {
	ctx := s.context(t)
	e, err := s.l.Dial(ctx, id, launcher.Dashboard)
	if err != nil {
		t.Errorf("reach the head that was started again: %v", err)
		return
	}
	defer e.Close()
	if e.Token == "" || before.token == "" || e.Token == before.token {
		t.Errorf("the token of the second start is the first one's, or there is none (%d and %d characters)", len(before.token), len(e.Token))
	}
	for _, c := range []struct {
		token string
		want  error
	}{{before.token, dashboardclient.ErrUnauthorized}, {e.Token, nil}} {
		with := *e
		with.Token = c.token
		client, err := launcher.DashboardClient(&with, nil)
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := client.ListJobs(ctx); !errors.Is(err, c.want) {
			t.Errorf("the second dashboard answered %v, want %v", err, c.want)
		}
		client.Close()
	}
	var out, said bytes.Buffer
	code, err := s.l.Exec(ctx, id, launcher.ExecRequest{
		Command: []string{"python", "-c", `import os, sys, ray
if not sys.argv[1] or os.path.exists(sys.argv[1]):
    sys.exit("the file with the first head's token: %r" % sys.argv[1])
ray.init(log_to_driver=False, logging_level="ERROR")
print("nodes", len(ray.nodes()))`, before.file}, Stdout: &out, Stderr: &said})
	if err != nil || code != 0 || !strings.Contains(out.String(), "nodes 1") {
		t.Errorf("exec on the second head: %v, code %d, %q, %s", err, code, out.String(), short(said.Bytes()))
	}
}
