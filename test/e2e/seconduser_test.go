package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/leak"
)

// TestSecondUser: another user of the machine attacks the files, processes and ports of a user of rayctl.
func TestSecondUser(t *testing.T) {
	victim, attacker := secondUsers(t)
	victim.withRay()
	beforeLocalLaunch(t, victim, attacker, "mine")
	w := attacker.watch()
	w.control = "keeper.pyz" // until onDashboard has a rarer one
	w.secrets["job's secret"] = "do-not-show-5f1c77b1e0aa"
	withSecret := victim.write("secret.yaml", "secrets: [MY_SECRET]\n", 0o600)
	env := victim.env
	victim.env = append(slices.Clone(env), "MY_SECRET="+w.secrets["job's secret"])
	victim.want(0, "up", "mine", "-f", withSecret, "--workers", "1", "--cpus-per-worker", "1")
	victim.env = env
	w.secrets["token"] = strings.TrimSpace(victim.must("cat ~/.local/state/rayctl/clusters/mine/ray-token.*"))
	w.secrets["keeper's token"] = strings.TrimSpace(victim.must("cat ~/.local/state/rayctl/clusters/mine/token"))
	t.Run("home", func(t *testing.T) {
		victim, attacker := victim.in(t), attacker.in(t)
		if r := attacker.sh("ls " + victim.home); r.code == 0 {
			t.Errorf("the attacker sees the victim's home: %s", r.out)
		}
		victim.must("ls ~/.local/state/rayctl")
	})
	t.Run("local", func(t *testing.T) { onLocalCluster(t, victim.in(t), attacker.in(t)) })
	t.Run("dashboard", func(t *testing.T) { onDashboard(t, victim.in(t), attacker.in(t), w) })
	victim.want(0, "down", "mine", "--now")
	w.end(t)
	t.Run("local launch", func(t *testing.T) { onLocalLaunch(t, victim.in(t)) })
	t.Run("shared run", func(t *testing.T) { onSharedRun(t, victim.in(t), attacker.in(t)) })
}

// beforeLocalLaunch sets traps at the paths that the nodes' directories had when their names followed from the cluster's name: one
// kind of trap for each of two nodes.
func beforeLocalLaunch(t *testing.T, victim, attacker *secondUser, name string) {
	run := filepath.Join(victim.home, ".local", "state", "rayctl", "clusters", name)
	for index, trap := range []string{"ln -s /tmp", "mkdir -m 777"} {
		key := strings.Join([]string{name, "1", run, strconv.Itoa(index), "0.0"}, "\x00")
		path := fmt.Sprintf("/tmp/r%x", sha256.Sum256([]byte(key)))[:len("/tmp/r12345678")]
		attacker.must(trap + " " + path)
		t.Cleanup(func() { os.Remove(path) })
	}
}

func (s *secondUser) watch() *watch {
	s.t.Helper()
	w := &watch{secrets: map[string]string{}}
	w.in, w.out, w.wait = s.program("watch")
	w.look(s.t)
	return w
}

// watch is the attacker's scan of /proc from before a cluster to after it, with what it must not find.
type watch struct {
	in      io.WriteCloser
	out     *bufio.Reader
	wait    func() error
	secrets map[string]string // name and text
	control string            // an argument of the victim's program that must be found
}

// program starts one of the attacker's programs, which ends with its stdin.
func (s *secondUser) program(name string) (in io.WriteCloser, out *bufio.Reader, wait func() error) {
	s.t.Helper()
	path, err := attackBinary()
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*limit)
	s.t.Cleanup(cancel)
	at := *s
	at.env = append(slices.Clone(s.env), attackVariable+"="+name)
	c := at.exec(ctx, path)
	c.Stderr = os.Stderr
	in, err = c.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	pipe, err := c.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	return in, bufio.NewReader(pipe), c.Wait
}

// attackBinary is a copy of this binary that every user can execute: go test's own is in a directory of root's.
var attackBinary = sync.OnceValues(func() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(own)
	if err != nil {
		return "", err
	}
	path := filepath.Join(home.dir, "attack")
	if err := os.WriteFile(path, content, 0o755); err != nil {
		return "", err
	}
	return path, os.Chmod(path, 0o755) // independent of the umask
})

// look waits for a complete scan.
func (w *watch) look(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(w.in, "look\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := w.out.ReadString('\n'); err != nil {
		t.Fatalf("the attacker's watch: %q, %v", line, err)
	}
}

// onLocalCluster has a second user attack a local cluster of two nodes with a job's package: every attempt must fail. The attacker's
// Python stands for any program.
func onLocalCluster(t *testing.T, victim, attacker *secondUser) {
	program := "print('main ran', flush=True)\n"
	victim.write("work/main.py", program, 0o644)
	victim.want(0, "submit", "mine", "-q", "--working-dir", ".", "--submission-id", "first", "--", "python", "main.py")
	dirs := reportedDirs(t, filepath.Join(victim.home, ".local", "state", "rayctl", "clusters", "mine"))
	packages := find(t, dirs, "main.py")
	if len(packages) == 0 {
		t.Fatalf("no unpacked package below %v", dirs)
	}

	t.Run("packages", func(t *testing.T) {
		attacker := attacker.in(t)
		for _, path := range packages {
			for _, script := range []string{
				"cat '" + path + "'", "echo evil > '" + path + "'", "rm -f '" + path + "' && ! ls '" + path + "'",
				"mv '" + filepath.Dir(path) + "' '" + filepath.Dir(path) + ".old'", "ls '" + filepath.Dir(path) + "'",
			} {
				refused(t, attacker, script)
			}
		}
		for _, path := range packages {
			if text, err := os.ReadFile(path); err != nil || string(text) != program {
				t.Errorf("%s is %q now, %v", path, text, err)
			}
		}
	})

	t.Run("links in logs", func(t *testing.T) {
		victim, attacker := victim.in(t), attacker.in(t)
		prey := victim.write("prey", "mine\n", 0o600)
		for _, logs := range found(t, dirs, "logs") {
			refused(t, attacker, "ln -s '"+prey+"' '"+filepath.Join(logs, "job-driver-third.log")+"'")
			refused(t, attacker, "ls '"+logs+"'")
		}
		if text, err := os.ReadFile(prey); err != nil || string(text) != "mine\n" {
			t.Errorf("the victim's file: %q, %v", text, err)
		}
	})

	t.Run("sockets and secrets", func(t *testing.T) {
		victim, attacker := victim.in(t), attacker.in(t)
		for _, name := range []string{"plasma_store", "raylet"} {
			for _, socket := range found(t, dirs, name) {
				connects := `python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' '` + socket + `'`
				victim.must(connects) // the script works
				refused(t, attacker, connects)
			}
		}
		state := filepath.Join(victim.home, ".local", "state", "rayctl")
		var tokens []string
		for _, name := range []string{"token", "ray-token.0"} {
			path := filepath.Join(state, "clusters", "mine", name)
			token, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			tokens = append(tokens, strings.TrimSpace(string(token)))
			refused(t, attacker, "cat '"+path+"'")
		}
		seen := attacker.sh("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null; find /tmp /dev/shm -type f -readable -size -1000k -exec cat {} + 2>/dev/null").out
		if !strings.Contains(seen, "keeper.pyz") {
			t.Error("the other user saw no command line of the cluster: this test would not find the token in one")
		}
		for _, token := range tokens {
			if how := leak.Find([]byte(seen), token); how != "" {
				t.Errorf("a token is readable by another user, %s", how)
			}
		}
	})

	t.Run("ports", func(t *testing.T) {
		attacker := attacker.in(t)
		var st struct {
			Head   struct{ Address, Dashboard string }
			Keeper struct{ URL string }
		}
		text, err := os.ReadFile(filepath.Join(victim.home, ".local", "state", "rayctl", "clusters", "mine", "state.json"))
		if err == nil {
			err = json.Unmarshal(text, &st)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, url := range []string{st.Head.Dashboard + "/api/jobs/", st.Keeper.URL + "/v1/state"} {
			status := attacker.must(`python3 -c '
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers={"Authorization": "Bearer guess"}), timeout=60).status)
except urllib.error.HTTPError as error:
    print(error.code)' '` + url + `'`)
			if s := strings.TrimSpace(status); s != "401" && s != "403" {
				t.Errorf("%s answered %s", url, s)
			}
		}
	})
}

// reportedDirs are the nodes' directories of a local cluster.
func reportedDirs(t *testing.T, runDir string) (dirs []string) {
	t.Helper()
	reports, err := filepath.Glob(filepath.Join(runDir, "nodes", "*", "report.json"))
	if err != nil || len(reports) == 0 {
		t.Fatalf("no reports in %s: %v", runDir, err)
	}
	for _, path := range reports {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, decode[struct{ Directory string }](t, string(text)).Directory)
	}
	return dirs
}

// find lists the entries of that name below the directories.
func find(t *testing.T, dirs []string, name string) (found []string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err == nil && filepath.Base(path) == name {
				found = append(found, path)
			}
			return nil // files removed meanwhile are no finding
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// refused runs a script that must fail because it is not permitted, and not because something is not there.
func refused(t *testing.T, who *secondUser, script string) {
	t.Helper()
	if r := who.sh(script); r.code == 0 || !denied.MatchString(r.err) {
		t.Errorf("%s was not refused: %s: exit code %d, %s%s", who.name, script, r.code, r.out, r.err)
	}
}

var denied = regexp.MustCompile("Permission denied|Operation not permitted|can't cd to") // dash's cd gives no reason

// found is find for what must be there.
func found(t *testing.T, dirs []string, name string) []string {
	t.Helper()
	paths := find(t, dirs, name)
	if len(paths) == 0 {
		t.Errorf("no %s below %v", name, dirs)
	}
	return paths
}

// onDashboard: while a job with a secret runs and the victim has dashboards open, one of them in a browser, another user of the machine sees no
// secret in /proc. That user gets no byte from rayctl's ports and nothing from the cluster's, and the session's cookie is sent to no other port.
func onDashboard(t *testing.T, victim, attacker *secondUser, w *watch) {
	finish, opened := filepath.Join(victim.home, "finish"), filepath.Join(victim.home, "opened")
	job := victim.start("submit", "mine", "--submission-id", "holder", "--", "python", "-c", holder, finish)
	v := *victim // its browser shows its arguments, and runs as long as the page exists
	v.env = append(slices.Clone(victim.env), "PATH="+victim.home+"/bin:"+os.Getenv("PATH"))
	victim.write("bin/xdg-open", "#!/bin/sh\ncat \"$1\" > "+opened+".page; echo \"$#\" \"$*\" > "+opened+".new; mv "+opened+".new "+opened+"\n"+
		"while [ -e \"$1\" ] && kill -0 $PPID; do sleep 0.2; done 2>/dev/null\n", 0o755)
	printed, browsed, forward := v.start("dashboard", "mine"), v.start("dashboard", "mine", "--open"), v.start("port-forward", "mine", ":"+dashboardPort(t, victim))
	for _, s := range []*screen{printed, browsed, forward} {
		s.until("until Ctrl-C", 1)
	}
	job.until("has ", 1)
	eventually(t, "the browser", func() bool { return exists(opened) })
	line := func(s *screen, prefix string) string {
		for text := range strings.Lines(s.String()) {
			if text = strings.TrimSpace(text); strings.HasPrefix(text, prefix) && !strings.Contains(text, " ") {
				return text
			}
		}
		t.Fatalf("no %s in %q", prefix, s)
		return ""
	}
	entry, entry2 := line(printed, "http://"), line(browsed, "http://")
	content, err := os.ReadFile(opened + ".page")
	if err != nil {
		t.Fatal(err)
	}
	next := nextPage.FindStringSubmatch(string(content))
	argument, err := os.ReadFile(opened)
	page := strings.TrimPrefix(strings.TrimSpace(string(argument)), "1 ")
	if err != nil || next == nil || next[1] == entry2 || !filepath.IsAbs(page) || !exists(page) {
		t.Fatalf("the browser was opened with %q, %v: %q", argument, err, content)
	}
	w.control = page
	for what, address := range map[string]string{"entry": entry, "entry of --open": entry2, "browser's entry": next[1]} {
		_, w.secrets[what], _ = strings.Cut(address, "/rayctl/")
	}
	w.look(t) // before anything was used
	refused(t, attacker, "cat '"+page+"'")

	gets := func(address, path string, headers ...string) request { // headers in pairs
		r := request{Address: address, Path: path, Header: map[string]string{}}
		for ; len(headers) > 0; headers = headers[2:] {
			r.Header[headers[0]] = headers[1]
		}
		return r
	}
	ours := []string{hostOf(t, entry), hostOf(t, entry2), line(forward, "127.0.0.1:")}
	at := func(i int, path string, headers ...string) request { return gets(ours[i], path, headers...) }
	path := func(address string) string {
		_, after, _ := strings.Cut(address, "/rayctl/")
		return "/rayctl/" + after
	}
	noAnswer := func(when string, requests ...request) {
		for _, r := range attacker.probe(requests) {
			if r.Status != 0 || r.Err == "" || r.Silent || strings.Contains(r.Err, "refused") { // accepted by the kernel, closed by rayctl
				t.Errorf("%s: another user's connection: %s", when, r)
			}
		}
	}
	noAnswer("before an entry is used", at(0, "/"), at(1, "/api/version"), at(2, "/api/version"), at(0, path(entry)), at(1, path(entry2)), at(1, path(next[1])))
	printed.until(", another user of this machine, to 127.0.0.1:", 1)       // who gets no answer
	for _, r := range probe([]request{at(0, "/"), at(2, "/api/version")}) { // as root, for comparison
		if r.Status != http.StatusUnauthorized {
			t.Errorf("root, who gets as far as to the door: %s", r)
		}
	}

	browser, base := enterDashboard(t, entry)
	browser2, base2 := enterDashboard(t, next[1])
	own := strings.TrimPrefix(base, "http://")
	w.secrets["dashboard's name"], w.secrets["other dashboard's name"] = strings.Split(own, ".")[0], strings.Split(hostOf(t, base2), ".")[0]
	cookie := sessionOf(t, browser, base)
	w.secrets["session"] = cookie.Value
	for base, browser := range map[string]*http.Client{base: browser, base2: browser2} {
		resp, err := browser.Get(base + "/api/version")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("the browser does not get in: %d", resp.StatusCode)
		}
	}
	session := cookie.Name + "=" + cookie.Value
	noAnswer("who knows the session", at(0, path(entry)), at(1, path(next[1])), at(0, "/api/version", "Host", own, "Cookie", session), at(0, "/", "Cookie", session))
	cookieScope(t, attacker, browser, session, own, ours)
	otherPorts(t, victim, attacker, w, ours)
	w.look(t)

	for _, s := range []*screen{printed, browsed, forward} {
		s.cmd.Process.Signal(syscall.SIGINT)
	}
	for _, s := range []*screen{printed, browsed, forward} {
		if code := s.code(); code != 0 {
			t.Errorf("exit code %d: %s", code, s)
		}
	}
	if exists(page) {
		t.Errorf("%s is still there", page)
	}
	victim.write(finish, "", 0o600)
	if code := job.code(); code != 0 || !strings.Contains(job.String(), "has 24\n") {
		t.Errorf("the job: exit code %d, %s", code, job)
	}
}

// start runs rayctl as the user in the background; SIGINT ends it.
func (s *secondUser) start(args ...string) *screen {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	c := &screen{t: s.t, cmd: s.exec(ctx, home.rayctl, args...), change: make(chan struct{}, 1), read: make(chan struct{})}
	close(c.read)
	c.cmd.Stdout, c.cmd.Stderr = c, c
	if err := c.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { cancel(); c.cmd.Wait() })
	return c
}

// holder is a job that has the secret and waits for a file.
const holder = "import os, sys, time\nprint('has', len(os.environ['MY_SECRET']), flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.1)\n"

// dashboardPort is the port of Ray's own dashboard.
func dashboardPort(t *testing.T, victim *secondUser) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(victim.home, ".local", "state", "rayctl", "clusters", "mine", "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(decode[struct{ Head struct{ Dashboard string } }](t, string(bytes.TrimSpace(text))).Head.Dashboard)
	if err != nil || u.Port() == "" {
		t.Fatalf("the dashboard's address: %v, %v", u, err)
	}
	return u.Port()
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// probe makes requests as the user.
func (s *secondUser) probe(requests []request) (responses []response) {
	s.t.Helper()
	in, out, wait := s.program("probe")
	if err := json.NewEncoder(in).Encode(requests); err != nil {
		s.t.Fatal(err)
	}
	in.Close()
	if err := json.NewDecoder(out).Decode(&responses); err != nil {
		s.t.Fatal(err)
	}
	if err := wait(); err != nil || len(responses) != len(requests) {
		s.t.Fatalf("%d of %d responses, %v", len(responses), len(requests), err)
	}
	return responses
}

// sessionOf is a browser's cookie for an address.
func sessionOf(t *testing.T, browser *http.Client, base string) *http.Cookie {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	cookies := browser.Jar.Cookies(u)
	if len(cookies) != 1 {
		t.Fatalf("cookies of %s: %v", base, cookies)
	}
	return cookies[0]
}

// cookieScope: the session's cookie belongs only to the proxy's own name. No loopback name makes the browser send it to another user's port. One
// proxy's cookie opens neither another proxy nor 127.0.0.1.
func cookieScope(t *testing.T, attacker *secondUser, browser *http.Client, session, own string, ours []string) {
	in, out, wait := attacker.program("listen")
	address, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(strings.TrimSpace(address), ":")
	for _, name := range []string{"127.0.0.1", "localhost", "other.localhost"} {
		resp, err := browser.Get("http://" + name + ":" + port + "/")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		got, err := out.ReadString('\n')
		if _, value, _ := strings.Cut(session, "="); err != nil || !strings.Contains(got, name) || strings.Contains(got, "Cookie") || strings.Contains(got, value) {
			t.Errorf("another user's port, as %s, is sent %q, %v", name, got, err)
		}
	}
	in.Close()
	if err := wait(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		address, host string
		want          int
	}{{ours[0], own, 200}, {ours[0], ours[0], 401}, {ours[0], "localhost", 401}, {ours[1], own, 421}, {ours[1], ours[1], 401}} {
		if r := (request{Address: c.address, Path: "/api/version", Header: map[string]string{"Host": c.host, "Cookie": session}}).do(); r.Status != c.want {
			t.Errorf("the cookie at %s, as %s: want %d, got %s", c.address, c.host, c.want, r)
		}
	}
}

// otherPorts: without the token the cluster's ports answer neither HTTP nor Ray's gRPC, except for the dashboard's
// empty page and Prometheus' numbers, which Ray serves to everybody; these contain no secret.
func otherPorts(t *testing.T, victim, attacker *secondUser, w *watch, ours []string) {
	var requests []request
	for _, address := range listeners(t, victim.uid) {
		if slices.Contains(ours, address) {
			continue
		}
		for _, path := range []string{"/", "/metrics", "/api/jobs/", "/api/version", "/nodes?view=summary", "/api/v0/logs", "/v1/state", "/v1/log"} {
			requests = append(requests, request{Address: address, Path: path, Header: map[string]string{"Authorization": "Bearer guess"}})
		}
		for _, method := range []string{"NodeInfoGcsService/GetAllNodeInfo", "JobInfoGcsService/GetAllJobInfo", "NodeManagerService/GetNodeStats", "CoreWorkerService/GetCoreWorkerStats"} {
			requests = append(requests, request{Address: address, Path: "/ray.rpc." + method, GRPC: true})
		}
	}
	answered := func(responses []response) (http, gRPC []string) {
		for _, r := range responses {
			for what, secret := range w.secrets {
				if how := leak.Find([]byte(r.Body), secret); how != "" {
					t.Errorf("the %s is in what another user gets, %s: %s", what, how, r)
				}
			}
			switch {
			case r.GRPC == "0":
				gRPC = append(gRPC, r.String())
			case r.Status != 200 || r.Request.GRPC || r.Request.Path == "/" || strings.HasPrefix(r.Body, "# HELP "): // the dashboard's empty page; Prometheus' numbers, at any path
			default:
				http = append(http, r.String())
			}
		}
		return http, gRPC
	}
	if http, gRPC := answered(attacker.probe(requests)); len(http)+len(gRPC) > 0 {
		t.Errorf("requests of another user were answered: %q, %q", http, gRPC)
	}
	for i := range requests {
		requests[i].Header = map[string]string{"Authorization": "Bearer " + w.secrets["token"]}
	}
	if http, gRPC := answered(probe(requests)); len(http) == 0 || len(gRPC) == 0 {
		t.Errorf("with the token %d HTTP and %d gRPC requests were answered: this test would not find anything", len(http), len(gRPC))
	}
}

// listeners returns the ports of a user's programs, reached over loopback (proc_pid_net(5)).
func listeners(t *testing.T, uid int) (addresses []string) {
	t.Helper()
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			col := strings.Fields(line) // sl local remote st ... uid
			if len(col) < 8 || col[3] != "0A" || col[7] != strconv.Itoa(uid) {
				continue
			}
			_, hex, _ := strings.Cut(col[1], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", port))
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// end checks the findings.
func (w *watch) end(t *testing.T) {
	t.Helper()
	w.in.Close()
	var found seen
	if err := json.NewDecoder(w.out).Decode(&found); err != nil {
		t.Fatal(err)
	}
	if err := w.wait(); err != nil {
		t.Error(err)
	}
	all := strings.Join(slices.Collect(maps.Keys(found.Texts)), "\n")
	for what, secret := range w.secrets {
		for text := range found.Texts {
			if how := leak.Find([]byte(text), secret); how != "" {
				t.Errorf("another user sees the %s (%q) in /proc, %s: %.500q", what, secret, how, text)
			}
		}
	}
	if len(w.secrets) == 0 || w.control == "" || !strings.Contains(all, w.control) {
		t.Errorf("%q is not in what the attacker saw: this test would not find anything", w.control)
	}
	if len(found.Opened) > 0 {
		t.Errorf("another user opens files of the victim's processes in /proc: %v", found.Opened)
	}
}

// onLocalLaunch launches below a directory in which everybody may rename others' files.
func onLocalLaunch(t *testing.T, victim *secondUser) {
	root, err := os.MkdirTemp("/tmp", "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o777); err != nil { //nolint:gosec // the point of the test
		t.Fatal(err)
	}
	r := victim.do("up", "trapped", "--set", "local.tmpDir="+root)
	if r.code != 73 {
		t.Errorf("up in a directory that everybody may change: %d, %s", r.code, r.err)
	}
	contains(t, "the error", r.err, root, "without the sticky bit")
	if r := victim.do("ls", "-o", "json"); strings.Contains(r.out, `"trapped"`) {
		t.Errorf("left: %s", r.out)
	}
}

// onSharedRun: a colleague of the group of job.shareDir reads a run that lives and that has ended; another user reads nothing. Neither gets at its secrets, or
// changes anything, or leads rayctl's writing elsewhere, although the group may write to the directory above.
func onSharedRun(t *testing.T, victim, attacker *secondUser) {
	colleague := newSecondUser(t, "colleague", colleagueID)
	colleague.team = true
	owner := victim.in(t)
	owner.team = true
	team := filepath.Join(commonDir(t), "team")
	for _, step := range []error{os.Mkdir(team, 0o700), os.Chown(team, 0, teamID), os.Chmod(team, 0o2770)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	run, finish := filepath.Join(team, "told"), filepath.Join(owner.home, "tell.finish")
	colleague.must("ln -s " + owner.home + " " + filepath.Join(team, "taken"))
	r := owner.do("run", "--name", "taken", "--set", "job.shareDir="+team, "--", "true")
	if r.code != runstate.CodeStartFailed {
		t.Errorf("a name that another user has linked: %d, %s", r.code, r.err)
	}
	contains(t, "the error", r.err, "cannot be shared", filepath.Join(team, "taken"))

	const secret = "do-not-tell-8d1f20c4aa77"
	file := owner.write("told.yaml", "secrets: [MY_SECRET]\njob: {restarts: {driver: 1}, shareDir: "+team+"}\n", 0o600)
	owner.env = append(slices.Clone(owner.env), "MY_SECRET="+secret)
	job := owner.start("run", "--name", "told", "-f", file, "--", "sh", "-c", teller, finish)
	job.until("attempt 1", 1)
	secrets := append(strings.Fields(owner.must("cd ~/.local/state/rayctl/clusters/told && cat token && echo && cat ray-token.*")), secret)
	shows := func(what string, args ...string) {
		t.Helper()
		eventually(t, what, func() bool { r := colleague.do(args...); return r.code == 0 && strings.Contains(r.out, what) })
	}
	shows("attempt 1\n", "logs", run)
	shows("Ready", "status", run)
	following := colleague.start("logs", "-f", run)
	following.until("attempt 1\n", 1)
	if err := following.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	if code := following.code(); code != runstate.CodeInterrupted || !strings.Contains(following.String(), "stopped watching the shared run told") {
		t.Errorf("who follows it and interrupts: %d, %s", code, following)
	}
	for _, who := range []*secondUser{attacker, colleague} {
		refused(t, who, "cat "+owner.home+"/.local/state/rayctl/clusters/told/token")
		refused(t, who, "cat "+owner.home+"/.local/state/rayctl/clusters/told/ray-token.0")
		refused(t, who, "ls "+owner.home+"/.local/state/rayctl/clusters")
		for _, script := range []string{"echo x >> driver.log", "rm -f driver.log && ! ls driver.log", "touch new", "ln -s /etc/passwd new", "chmod 777 ."} {
			refused(t, who, "cd "+run+" && "+script)
		}
		if code := who.do("down", run).code; code == 0 {
			t.Errorf("%s ended the run", who.name)
		}
	}
	refused(t, attacker, "ls "+run)
	contains(t, "who is not in the group", attacker.want(runstate.CodePermission, "logs", run).err, "not permitted", run)
	seen := colleague.must("cat " + run + "/*")
	for _, value := range secrets {
		if how := leak.Find([]byte(seen), value); how != "" {
			t.Errorf("the shared files have a secret, %s", how)
		}
	}

	// The directory above is the group's: the run's is renamed, and a link to the owner's files takes its place.
	colleague.must("mv " + run + " " + run + ".moved && ln -s " + owner.home + "/work " + run)
	owner.write("tell.finish", "", 0o600)
	if code := job.code(); code != 3 {
		t.Errorf("exit code %d: %s", code, job)
	}
	if found := owner.must("ls ~/work"); strings.Contains(found, "driver") || strings.Contains(found, ".json") {
		t.Errorf("written through the link: %s", found)
	}
	run += ".moved"
	if out := colleague.want(0, "logs", run).out; out != "attempt 2\n" {
		t.Errorf("the output: %q", out)
	}
	if out := colleague.want(3, "logs", "-f", run).out; out != "attempt 2\n" {
		t.Errorf("the output with -f: %q", out)
	}
	if out := colleague.want(0, "logs", run, "--attempt", "1").out; out != "attempt 1\n" {
		t.Errorf("the output of the first attempt: %q", out)
	}
	s := decode[launcher.Status](t, colleague.want(0, "status", run, "-o", "json").out)
	if s.Exit == nil || s.Exit.Code != 3 || len(s.Attempts) != 2 || s.Owner != "user 12345" {
		t.Errorf("%+v", s)
	}
	contains(t, "status", colleague.want(0, "status", run).out, "node-seconds", "user 12345")
}

// teller prints its attempt, waits for a file, and fails.
const teller = `echo "attempt $RAYCTL_ATTEMPT"; until [ -e "$0" ]; do sleep 0.1; done; exit 3`
