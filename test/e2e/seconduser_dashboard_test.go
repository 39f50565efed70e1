package e2e

import (
	"bytes"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/test/leak"
)

// holder is a job that has the secret and waits for a file.
const holder = "import os, sys, time\nprint('has', len(os.environ['MY_SECRET']), flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.1)\n"

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
	w.look() // before anything was used
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
	w.look()

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

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

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

// eventually waits for a condition.
func eventually(t *testing.T, what string, here func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !here(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}
