package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestBadInput expects the exit code of each mistake and a sentence that names it. None of them starts anything.
func TestBadInput(t *testing.T) {
	u := newUser(t)
	u.write("unknown.yaml", "name: x\njob:\n  entrypont: a\n")
	u.write("unit.yaml", "lifetime: {max: 5 parsecs}\njob: {entrypoint: a}\n")
	u.write("notyaml.yaml", "a: [\n")
	u.write("both.yaml", "slurm: {}\nkuberay: {}\njob: {entrypoint: a}\n")
	u.write("empty.yaml", "name: x\n")
	u.write("secret.yaml", "job: {entrypoint: a}\nsecrets: [NOT_IN_THE_ENVIRONMENT]\n")
	u.write("port.yaml", "applications: []\n")
	silent := httptest.NewServer(http.NotFoundHandler())
	defer silent.Close()
	for _, c := range []struct {
		code  int
		says  string
		args  string
		extra []string
	}{
		{runstate.CodeSpec, "unknown.yaml:3", "run -f unknown.yaml", nil},
		{runstate.CodeSpec, "entrypoint", "run -f unknown.yaml", nil},
		{runstate.CodeSpec, "parsecs", "run -f unit.yaml", nil},
		{runstate.CodeSpec, "notyaml.yaml", "run -f notyaml.yaml", nil},
		{runstate.CodeSpec, "--launcher", "run -f both.yaml", nil},
		{runstate.CodeSpec, "after --", "run -f empty.yaml", nil},
		{runstate.CodeSpec, "nosuch.yaml", "run -f nosuch.yaml", nil},
		{runstate.CodeConfig, "NOT_IN_THE_ENVIRONMENT", "run -f secret.yaml", nil},
		{runstate.CodeUsage, "no worker group", "run --workers 2 --set workers.nosuch.replicas=1 -- a", nil},
		{runstate.CodeUsage, "Bad_Name", "run --name Bad_Name -- a", nil},
		{runstate.CodeSpec, "nosuchdir", "run --working-dir nosuchdir -- a", nil},
		{runstate.CodeUsage, "--nosuch", "run --nosuch -- a", nil},
		{runstate.CodeUsage, "--max", "run --max soon -- a", nil},
		{runstate.CodeUnreachable, "127.0.0.1:1", "jobs --address http://127.0.0.1:1", nil},
		{runstate.CodeUnreachable, silent.URL, "jobs --address " + silent.URL, nil},
		{runstate.CodeSpec, "nosuch", "submit nosuch -- a", nil},
		{runstate.CodeSpec, "no applications", "serve apply -f port.yaml --address http://127.0.0.1:1", nil},
		{runstate.CodeConfig, "/nosuch", "run -- a", []string{"RAYCTL_RAY_PYTHON=/nosuch/python"}},
		{runstate.CodeSpec, "RAYCTL_LIFETIME_MAX", "run -- a", []string{"RAYCTL_LIFETIME_MAX=x"}},
	} {
		u.env = c.extra
		r := u.do(strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.err, c.says) || r.out != "" || strings.Contains(r.err, "goroutine") {
			t.Errorf("rayctl %s: exit code %d, want %d and %q: %s", c.args, r.code, c.code, c.says, r.err)
		}
	}
	u.env = nil
	contains(t, "down", u.want(runstate.CodeSpec, "down", "no-such-cluster").err, "no cluster named \"no-such-cluster\"")
	if out := u.want(0, "ls", "-o", "name").out; strings.TrimSpace(strings.ReplaceAll(out, "shared\n", "")) != "" {
		t.Errorf("something was started: %s", out)
	}
}
