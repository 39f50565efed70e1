package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestServe applies an application, calls it through port-forward, and deletes it; and applies what `rayctl init serve` writes.
func TestServe(t *testing.T) {
	u := sharedCluster(t)
	u.write("app/app.py", "from ray import serve\n@serve.deployment\nclass H:\n    def __call__(self, request): return 'hello'\napp = H.bind()\n")
	port := freePort(t)
	u.write("serve.yaml", "http_options: {host: 127.0.0.1, port: "+port+"}\napplications:\n- {name: good, import_path: 'app:app', route_prefix: /, runtime_env: {working_dir: app}}\n")
	contains(t, "apply", u.want(0, "serve", "apply", "-f", "serve.yaml", "shared").out, "good", "RUNNING", "HEALTHY")
	s := u.start(false, "port-forward", "shared", ":"+port)
	s.until("until Ctrl-C", 1)
	address := ""
	for _, line := range strings.Split(s.String(), "\n") {
		if strings.HasPrefix(line, "127.0.0.1:") && !strings.Contains(line, " ") {
			address = line
		}
	}
	resp, err := http.Get("http://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "hello" {
		t.Errorf("the application says %q", body)
	}
	s.cmd.Process.Signal(syscall.SIGINT)
	if code := s.code(); code != 0 {
		t.Errorf("port-forward: exit code %d", code)
	}
	u.write("bad.yaml", "http_options: {host: 127.0.0.1, port: "+port+"}\napplications:\n- {name: bad, import_path: 'app:nosuch', route_prefix: /, runtime_env: {working_dir: app}}\n")
	contains(t, "the failure", u.want(runstate.CodeStartFailed, "serve", "apply", "-f", "bad.yaml", "shared").err, "bad", "nosuch")
	contains(t, "the failure, later", u.want(0, "serve", "status", "shared").err, "bad is DEPLOY_FAILED", "nosuch", "rayctl serve logs -c shared --controller")
	u.write("app/built.yaml", "http_options: {host: 127.0.0.1, port: "+port+"}\napplications:\n- {name: built, import_path: 'app:app', route_prefix: /, runtime_env: {}}\n")
	contains(t, "a config of `serve build`", u.want(0, "serve", "apply", "-f", "app/built.yaml", "shared").out, "built", "RUNNING", "HEALTHY")
	for key, config := range map[string]string{
		"applications[0].rout_prefix (did you mean route_prefix?)":                  "applications: [{name: good, import_path: 'app:app', rout_prefix: /}]",
		"applications[0].import_path: got invalid import path \"app\"":              "applications: [{name: good, import_path: app}]",
		"applications[0].deployments[0]: `num_replicas` must be an int or \"auto\"": "applications: [{name: good, import_path: 'app:app', deployments: [{name: H, num_replicas: many}]}]",
	} {
		u.write("wrong.yaml", config)
		contains(t, "a wrong config", u.want(runstate.CodeSpec, "serve", "apply", "-f", "wrong.yaml", "shared").err, key)
	}
	u.want(0, "serve", "delete", "shared")
	contains(t, "status", u.want(0, "serve", "status", "shared").err, "no application")

	u.want(0, "init", "serve", "--dir", "made")
	applied := u.want(0, "serve", "apply", "-f", "made/serve.yaml", "shared")
	contains(t, "the template as it is", applied.out, "hello", "RUNNING", "HEALTHY")
	if said, want := get(t, serveURL(t, applied.err, "hello")+"?name=you"), "hello you"; said != want {
		t.Errorf("the template's application says %q, want %q", said, want)
	}
	u.want(0, "serve", "delete", "shared")
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestTwoServes: two clusters of this machine serve at addresses of their own, which no other machine reaches; a port that is taken is an error.
func TestTwoServes(t *testing.T) {
	u := sharedCluster(t)
	u.want(0, "up", "second", "--workers", "0", "--grace", "5m")
	defer u.want(0, "down", "second")
	const asks = "import ray\nfrom ray.util.state import list_nodes\nray.init(log_to_driver=False, logging_level='ERROR')\nask = ray.remote(lambda: [n.node_id for n in list_nodes()])\n" +
		"print(ray.get(ask.remote()) == [n['NodeID'] for n in ray.nodes()])"
	if said := u.want(0, "submit", "second", "--", "python", "-c", asks).out; said != "True\n" {
		t.Errorf("a task that asks for the nodes of its cluster, where several are on this machine: %q", said)
	}
	urls := map[string]string{}
	for _, cluster := range []string{"shared", "second"} {
		u.write(cluster+"/app.py", "import logging, sys\nfrom ray import serve\n@serve.deployment\nclass H:\n    def __call__(self, request):\n"+
			"        logging.getLogger('ray.serve').info('asked here')\n        print('printed here')\n        print('to stderr', file=sys.stderr)\n        return '"+cluster+"'\na = H.bind()\nb = H.bind()\n")
		u.write(cluster+"/serve.yaml", "applications:\n- {name: a, import_path: 'app:a', route_prefix: /a, runtime_env: {working_dir: .}}\n"+
			"- {name: b, import_path: 'app:b', route_prefix: /b, runtime_env: {working_dir: .}}\n")
		urls[cluster] = serveURL(t, u.want(0, "serve", "apply", "-f", cluster+"/serve.yaml", cluster).err, "b")
	}
	for range 20 { // a port that both listened on would answer for either
		for cluster, url := range urls {
			if said := get(t, url); said != cluster {
				t.Fatalf("%s answers as %q", cluster, said)
			}
		}
	}
	port := strings.Split(urls["shared"], ":")[2]
	port, _, _ = strings.Cut(port, "/")
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil && !ip.IsLoopback() && ip.To4() != nil {
			if conn, err := net.Dial("tcp", net.JoinHostPort(ip.String(), port)); err == nil {
				conn.Close()
				t.Errorf("Serve listens on %s, too", ip)
			}
		}
	}
	replica := u.want(0, "serve", "logs", "second", "b").out
	contains(t, "the log and what was printed", replica, "asked here", "\nprinted here\n", "\nto stderr\n")
	if asked := strings.Count(replica, "asked here"); asked != strings.Count(replica, "printed here") || strings.Contains(replica, ":actor_name:") {
		t.Errorf("not each once: %s", replica)
	}
	following := u.start(false, "serve", "logs", "second", "-f", "--tail", "1")
	following.until("printed here", 1)
	get(t, urls["second"])
	following.until("printed here", 2)
	following.cmd.Process.Signal(syscall.SIGINT)
	contains(t, "none chosen", u.want(runstate.CodeUsage, "serve", "delete", "second").err, "Serve has the applications a, b")
	u.want(0, "serve", "delete", "second", "b")
	contains(t, "the rest", u.want(0, "serve", "list", "second", "-o", "name").out, "a\n")
	if said := get(t, strings.TrimSuffix(urls["second"], "b")+"a"); said != "second" {
		t.Errorf("the other application answers %q", said)
	}
	u.write("second/taken.yaml", "http_options: {port: "+port+"}\n"+"applications:\n- {name: a, import_path: 'app:a', route_prefix: /a, runtime_env: {working_dir: .}}\n")
	contains(t, "another port", u.want(runstate.CodeSpec, "serve", "apply", "-f", "second/taken.yaml", "second").err, "http_options.port is "+port, "rayctl serve delete -c second")
	u.want(0, "serve", "delete", "second")
	contains(t, "a taken port", u.want(runstate.CodeConfig, "serve", "apply", "-f", "second/taken.yaml", "second").err, "port "+port+" of 127.0.0.1 cannot be used: Address already in use")
	u.want(0, "serve", "delete", "shared", "--all")
	endsWithCluster(u, "second")
}

// endsWithCluster: whoever waits for a job, or follows a node's log, learns that its cluster has ended, from which no answer comes any more.
func endsWithCluster(u *user, cluster string) {
	u.t.Helper()
	const deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(1000)"
	following := u.start(false, "submit", cluster, "--submission-id", "deaf", "--", "python", "-c", deaf)
	following.until("ready", 1)
	stopping := u.start(false, "stop", cluster, "deaf")
	stopping.until("stopping deaf", 1)
	node := u.start(false, "logs", cluster, "--node", "head-0", "--file", "raylet.out", "-f")
	node.until("raylet", 1)
	u.want(0, "down", "--now", cluster)
	if code := node.code(); code != 0 || !strings.Contains(node.String(), "cluster "+cluster+" has ended") {
		u.t.Errorf("logs of a node: exit code %d, %q", code, node)
	}
	if code := stopping.code(); code != 0 {
		u.t.Errorf("stop: exit code %d, %q", code, stopping)
	}
	u.t.Logf("stop: %s\nsubmit: %s", stopping, following)
	if code := following.code(); code != runstate.CodeLost && code != runstate.CodeInterrupted {
		u.t.Errorf("submit: exit code %d, %q", code, following)
	}
}
