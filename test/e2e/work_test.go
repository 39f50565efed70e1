package e2e

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/leak"
)

// TestEnv checks that Ray's own tools work.
func TestEnv(t *testing.T) {
	u := sharedCluster(t)
	u.want(0, "submit", "shared", "-q", "--submission-id", "seen-by-ray", "--", "true")
	script := `before=$PATH; (eval "$("$RAYCTL" env shared)"; unset RAY_API_SERVER_ADDRESS RAY_ADDRESS RAY_AUTH_MODE RAY_AUTH_TOKEN_PATH; python -c '
import os, subprocess
exec(subprocess.check_output([os.environ["RAYCTL"], "env", "shared", "--python"], text=True))
import ray
ray.init(log_to_driver=False)
print("python sees", len(ray.nodes()))') && eval "$("$RAYCTL" env shared)" && eval "$("$RAYCTL" env shared)" && ray job list && ray status && python -c '
import ray
ray.init(log_to_driver=False)
print("nodes", len(ray.nodes()))' && eval "$("$RAYCTL" env --unset)" && [ "$PATH" = "$before" ] && echo "left:$RAY_ADDRESS$RAY_API_SERVER_ADDRESS" &&
! { eval "$("$RAYCTL" env nosuch)" && echo wrong; }`
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", script)
	c.Dir, c.Env = u.dir, environment(u.python, "RAYCTL="+home.rayctl)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	contains(t, "the output", string(out), "seen-by-ray", "python sees 2", "nodes 2", "left:\n", "/4.0 CPU")
	vars := decode[map[string]string](t, u.want(0, "env", "shared", "-o", "json").out)
	info, err := os.Stat(vars["RAY_AUTH_TOKEN_PATH"])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v, %v", info, err)
	}
}

// TestRefusedOnACluster: mistakes are reported before anything is sent.
func TestRefusedOnACluster(t *testing.T) {
	u := sharedCluster(t)
	contains(t, "logs", u.want(64, "logs", "shared", "--node", "worker-1", "--file", "../x").err, "../x", "directory of logs")
	noise := make([]byte, 101<<20) // does not compress
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	u.write("large/noise", string(noise))
	contains(t, "submit", u.want(65, "submit", "shared", "--working-dir", "large", "--", "true").err, "100 MiB", "noise")
}

// TestExecAndCp run a command and copy files there and back.
func TestExecAndCp(t *testing.T) {
	u := sharedCluster(t)
	u.write("main.py", printArguments)
	u.env = []string{"CODE=4"}
	r := u.want(4, append([]string{"exec", "shared", "--node", "worker-1", "--", "python", "main.py"}, hostile...)...)
	if d := cmp.Diff(strings.Join(hostile, "\x00"), r.out); d != "" {
		t.Error(d)
	}
	contains(t, "ray status", u.want(0, "exec", "shared", "--", "ray", "status").out, "/4.0 CPU", "Pending Demands")
	u.want(64, "exec", "shared", "--node", "nosuch", "--", "true")
	contains(t, "exec", u.want(127, "exec", "shared", "--", "no-such-program").err, "no-such-program")
	u.write("tree/in ner/$(a)", "content\n")
	there := filepath.Join(t.TempDir(), "there")
	u.want(0, "cp", "tree", "shared:"+there)
	u.want(0, "cp", "shared:"+there, "back")
	got, err := os.ReadFile(filepath.Join(u.dir, "back", "in ner", "$(a)"))
	if err != nil || string(got) != "content\n" {
		t.Errorf("%q, %v", got, err)
	}
	file := filepath.Join(there, "in ner", "$(a)")
	contains(t, "from itself", u.want(65, "cp", "shared:"+file, file).err, "the same", "nothing was copied")
	contains(t, "to itself", u.want(65, "cp", file, "shared:"+there+"/in ner").err, "the same")
	contains(t, "into itself", u.want(65, "cp", "shared:"+there, there+"/in ner/x").err, "into itself")
	if got, err := os.ReadFile(file); err != nil || string(got) != "content\n" {
		t.Errorf("after copies onto itself: %q, %v", got, err)
	}
	contains(t, "what is not here", u.want(65, "cp", "nosuch", "shared:/tmp/x").err, "rayctl: there is no file nosuch here")
	u.want(0, "cp", "shared:"+there, "made/")
	contains(t, "no place here", u.want(65, "cp", "shared:"+there, "nosuch/dir/").err, "rayctl: there is no directory nosuch/dir/ here")
	contains(t, "no place there", u.want(65, "cp", file, "shared:"+there+"/no/dir/x").err, "there is no directory "+there+"/no/dir/ on the node")
	u.want(65, "cp", "shared:/nosuch", ".")
	copyOverLink(t, u, there)
}

// copyOverLink copies a file that was a link on the node at first: what that link named here keeps its content.
func copyOverLink(t *testing.T, u *user, there string) {
	u.write("secret", "mine")
	report := filepath.Join(there, "report.txt")
	if err := os.Symlink(filepath.Join(u.dir, "secret"), report); err != nil {
		t.Fatal(err)
	}
	u.want(0, "cp", "shared:"+report, "report.txt")
	if err := errors.Join(os.Remove(report), os.WriteFile(report, []byte("theirs"), 0o600), os.Symlink("secret", filepath.Join(u.dir, "typed"))); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"report.txt", "typed"} {
		u.want(0, "cp", "shared:"+report, target)
		info, err := os.Lstat(filepath.Join(u.dir, target))
		if err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s is %v, %v", target, info, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(u.dir, "secret")); err != nil || string(got) != "mine" {
		t.Errorf("written through a link: %q, %v", got, err)
	}
}

// TestDashboard: the dashboard opens for whoever has the URL.
func TestDashboard(t *testing.T) {
	u := sharedCluster(t)
	s := u.start(false, "dashboard", "shared")
	s.until("until Ctrl-C", 1)
	entry := ""
	for _, line := range strings.Split(s.String(), "\n") {
		if strings.HasPrefix(line, "http://") {
			entry = line
		}
	}
	get := func(c *http.Client, url string) (int, string) {
		resp, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	plain, _, _ := strings.Cut(entry, "/rayctl/")
	if code, _ := get(http.DefaultClient, plain+"/api/version"); code != http.StatusUnauthorized {
		t.Errorf("without the secret: %d", code)
	}
	browser, base := enterDashboard(t, entry)
	if code, body := get(browser, base); code != http.StatusOK || !strings.Contains(body, "html") {
		t.Errorf("the page: %d %.200s", code, body)
	}
	if code, _ := get(browser, plain+"/api/version"); code != http.StatusUnauthorized {
		t.Errorf("what every port of 127.0.0.1 gets is enough: %d", code)
	}
	if _, page := get(http.DefaultClient, entry); strings.Contains(page, "/rayctl/") || !strings.Contains(page, base+"/") {
		t.Errorf("the entry leads in twice: %s", page)
	}
	s.until("/rayctl/", 2) // another entry
	if code, body := get(browser, base+"/api/version"); code != http.StatusOK || !strings.Contains(body, "2.60.0") {
		t.Errorf("the API: %d %s", code, body)
	}
	s.cmd.Process.Signal(syscall.SIGINT)
	if code := s.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// nextPage matches the target of a page of `rayctl dashboard`.
var nextPage = regexp.MustCompile(`http-equiv="refresh" content="0; url=([^"]+)"`)

// enterDashboard opens an entry like a browser that resolves names below localhost.
func enterDashboard(t *testing.T, entry string) (browser *http.Client, base string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser = &http.Client{Jar: jar, Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+port)
	}}}
	t.Cleanup(browser.CloseIdleConnections)
	for at := entry; ; {
		resp, err := browser.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		next := nextPage.FindSubmatch(body)
		if err != nil || next == nil {
			t.Fatalf("%s: %d %s, %v", at, resp.StatusCode, body, err)
		}
		if string(next[1]) == "/" {
			return browser, "http://" + resp.Request.URL.Host
		}
		at = string(next[1])
	}
}

// TestClusterCommands queries the shared cluster and changes its limits.
func TestClusterCommands(t *testing.T) {
	u := sharedCluster(t)
	u.want(0, "up", "shared", "--workers", "2", "--cpus-per-worker", "2", "--label", "test=e2e") // the same cluster
	contains(t, "the difference", u.want(65, "up", "shared", "--workers", "3", "--cpus-per-worker", "2", "--label", "test=e2e").err, "the changed file cannot be applied to shared: group worker is not elastic")
	contains(t, "ls", u.want(0, "ls", "-l", "test=e2e", "-o", "name").out, "shared")
	if out := u.want(0, "ls", "-l", "test=other", "-o", "json").out; strings.TrimSpace(out) != "[]" {
		t.Errorf("ls of another label: %s", out)
	}
	contains(t, "status", u.want(0, "status", "shared").out, "Ready", "2 of 2", "worker-1", "lifetime.max", "lifetime.idle")
	contains(t, "extend", u.want(0, "extend", "shared", "--by", "2h", "--idle", "unlimited").out, "max")
	contains(t, "extend does not shorten", u.want(runstate.CodeUsage, "extend", "shared", "--max", "1m").err, "earlier than at present", "`--at-most 1m`")
	contains(t, "unless it is asked to", u.want(0, "extend", "shared", "--at-most", "2h").out, "max")
	if out := u.want(0, "status", "shared").out; strings.Contains(out, "lifetime.idle") {
		t.Errorf("still ends idle: %s", out)
	}
	contains(t, "node logs", u.want(0, "logs", "shared", "--node", "worker-1").out, "raylet.out")
	contains(t, "no node log", u.want(65, "logs", "shared", "--node", "worker-1", "--file", "nosuch").err, "no such log file")
	contains(t, "a job that is not there", u.want(65, "logs", "raysubmit_NOSUCH").err, "raysubmit_NOSUCH")
	contains(t, "a node log", u.want(0, "logs", "shared", "--node", "worker-1", "--file", "raylet.out").out, "(raylet)")
	if out := u.want(0, "logs", "shared", "--node", "worker-1", "--file", "raylet.out", "--tail", "5").out; out == "" || strings.Count(out, "\n") > 5 {
		t.Errorf("the last 5 lines of a node's log: %q", out)
	}
	contains(t, "top", u.want(0, "top", "shared").out, "worker-1", "0/2", "GiB")
	if out := u.want(0, "gc", "--dry-run", "-o", "json").out; strings.Contains(out, "shared") {
		t.Errorf("gc would remove a living cluster: %s", out)
	}
	contains(t, "completion", u.want(0, "__complete", "status", "").out, "shared\t")
}

// TestDebugDump collects from the shared cluster, to which a job was submitted that prints the cluster's token in several ways: no file has it. The job's output is
// there only if it is wanted.
func TestDebugDump(t *testing.T) {
	u := sharedCluster(t)
	file := decode[map[string]string](t, u.want(0, "env", "shared", "-o", "json").out)["RAY_AUTH_TOKEN_PATH"]
	token, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	u.want(0, "submit", "shared", "-q", "--submission-id", "prints-token", "--", "sh", "-c", "echo printed; cat "+file+"; echo; base64 "+file+"; echo Authorization: Bearer $(cat "+file+")")
	r := u.want(0, "debug-dump", "shared", "-o", "dump.tar.gz")
	contains(t, "the answer", r.out, "dump.tar.gz")
	contains(t, "what it holds", r.err, "the archive holds ", "run/ (", "ray/ (", "look at it before you send it")
	contains(t, "again", u.want(runstate.CodeUsage, "debug-dump", "shared", "-o", "dump.tar.gz").err, "already exists")
	texts := u.unpacked("dump.tar.gz")
	contains(t, "the keeper's log", texts["run/keeper.log"], "Ready")
	contains(t, "the cluster file", texts["cluster-file.yaml"], "name: shared")
	contains(t, "a node's log", texts["ray/nodes/worker-1/raylet.out"], "(raylet)")
	contains(t, "Ray's nodes", texts["ray/nodes.json"], "worker-1")
	u.want(0, "debug-dump", "shared", "-o", "whole.tar.gz", "--driver-log")
	whole := u.unpacked("whole.tar.gz")
	contains(t, "the job's output", whole["ray/drivers/prints-token.log"], "printed\n[secret removed]\nAuthorization: [secret removed]\n")
	for name, text := range texts {
		if strings.Contains(text, "\nprinted\n") || strings.HasPrefix(path.Base(name), "job-driver-") || strings.HasPrefix(path.Base(name), "worker-") {
			t.Errorf("the user's output is in %s", name)
		}
		whole["without the output: "+name] = text
	}
	for name, text := range whole {
		if how := leak.Find([]byte(text), strings.TrimSpace(string(token))); how != "" {
			t.Errorf("the token is in %s, %s", name, how)
		}
	}
}

// unpacked are the texts of an archive of debug-dump.
func (u *user) unpacked(file string) map[string]string {
	u.t.Helper()
	packed, err := os.Open(filepath.Join(u.dir, file))
	if err != nil {
		u.t.Fatal(err)
	}
	defer packed.Close()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		u.t.Fatal(err)
	}
	texts, files := map[string]string{}, tar.NewReader(plain)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			u.t.Fatal(err)
		}
		text, err := io.ReadAll(files)
		if err != nil {
			u.t.Fatal(err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		texts[name] = string(text)
	}
}
