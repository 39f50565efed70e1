package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
)

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

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

// TestBrokenRay runs with a Python without Ray, a Ray of another version, and a missing driver.
func TestBrokenRay(t *testing.T) {
	u := newUser(t)
	u.env = []string{"RAYCTL_RAY_VERSION=2.40.0"}
	contains(t, "another version", u.want(runstate.CodeConfig, "run", "--", "true").err, "2.40.0", "2.60.0")
	script := u.write("python", "#!/bin/sh\nexit 1\n")
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	u.env = []string{"RAYCTL_RAY_PYTHON=" + script}
	u.want(runstate.CodeConfig, "run", "--name", "broken", "--", "true")
	u.env = nil
	contains(t, "a run that was refused", u.want(0, "history").out, "broken", "78")
	shell := u.want(127, "run", "--", "no-such-program; true")
	contains(t, "no such driver", shell.out, "not found")
	contains(t, "the hint", shell.err, "sh -c 'no-such-program; true'")
}

// TestInit writes files that run, and overwrites none.
func TestInit(t *testing.T) {
	u := newUser(t)
	for _, template := range []string{"basic", "grpo", "train", "serve"} {
		u.want(0, "init", template, "--dir", template)
		u.want(64, "init", template, "--dir", template)
		u.env = []string{"RAYCTL_RAY_PYTHON="}
		command := []string{"render", "-f", template + "/rayctl.yaml"}
		if template == "serve" {
			command = append(command, "--up")
			contains(t, "the template, as Serve asks for no password,", u.read("serve/serve.yaml"), "http_options:\n  host: 127.0.0.1 ")
		}
		contains(t, "render", u.want(0, command...).out, "orders.json")
		u.env = nil
	}
	u.write("hand/start.sh", "#!/bin/bash\nset -e\nexport SEED=7 WHO='you there'\nport=6379\nray start --head --port=$port --num-cpus=1\nsleep 5\nSTEPS=3\npython hand/main.py --steps $STEPS\nray stop\n")
	u.write("hand/main.py", "import os, sys, ray\nray.init()\nprint(sys.argv[1:], os.environ['SEED'], ray.get(ray.remote(lambda: os.environ['WHO']).remote()))\n")
	u.want(0, "init", "--from", "hand/start.sh", "--dir", "hand")
	contains(t, "the run of a script that started Ray by hand", u.want(0, "run", "-f", "hand/rayctl.yaml").out, "['--steps', '3'] 7 you there")
	u.dir += "/grpo"
	contains(t, "the run", u.want(0, "run").out, "step 39 reward")
}
