package conformance

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
)

// tokenNow is Ray's token, "" after an error: it may be called by another goroutine than the test's.
func (s *suite) tokenNow(t *testing.T, id launcher.ID) string {
	e, err := s.l.Dial(s.context(t), id, launcher.Dashboard)
	if err != nil {
		t.Errorf("reach the dashboard: %v", err)
		return ""
	}
	defer e.Close()
	return e.Token
}

// anotherToken: the head that was started again refuses the token of the one before, and Ray's tools reach it with its own.
func (s *suite) anotherToken(t *testing.T, id launcher.ID, before string) {
	ctx := s.context(t)
	e, err := s.l.Dial(ctx, id, launcher.Dashboard)
	if err != nil {
		t.Errorf("reach the head that was started again: %v", err)
		return
	}
	defer e.Close()
	if e.Token == "" || before == "" || e.Token == before {
		t.Errorf("the token of the second start is the first one's, or there is none (%d and %d characters)", len(before), len(e.Token))
	}
	for _, c := range []struct {
		token string
		want  error
	}{{before, dashboardclient.ErrUnauthorized}, {e.Token, nil}} {
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
	code, err := s.l.(launcher.Execer).Exec(ctx, id, launcher.ExecRequest{
		Command: []string{"python", "-c", `import ray; ray.init(log_to_driver=False, logging_level="ERROR"); print("nodes", len(ray.nodes()))`}, Stdout: &out, Stderr: &said})
	if err != nil || code != 0 || !strings.Contains(out.String(), "nodes 1") {
		t.Errorf("exec on the second head: %v, code %d, %q, %s", err, code, out.String(), short(said.Bytes()))
	}
}
