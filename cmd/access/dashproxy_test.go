package access

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/dashboardclient/proven"
	"github.com/rayctl/rayctl/launcher"
)

// TestProxy acts as a browser that follows the pages: an entry gives access once, everything else gives none.
func TestProxy(t *testing.T) {
	dashboard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Header.Get("Authorization")+" "+r.Header.Get("Cookie"))
	}))
	defer dashboard.Close()
	server := httptest.NewUnstartedServer(nil)
	p, err := newDashProxy(&launcher.Endpoint{URL: dashboard.URL, Token: "T", TokenHeader: "Authorization"}, server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	used := 0
	p.Used = func() { used++ }
	server.Config.Handler = p
	server.Listener = &proven.Listener{Listener: server.Listener}
	server.Start()
	defer server.Close()
	get := func(path, host string, headers ...string) (int, string, *http.Response) {
		r, err := http.NewRequest(http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Host = host; host == "" {
			r.Host = "127.0.0.1:8265" // through ssh -L
		}
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Set(name, value)
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body), resp
	}
	entry := strings.TrimPrefix(p.EntryURL(), "http://"+p.address)
	if code, _, _ := get(entry, "", "Sec-Purpose: prefetch"); code == http.StatusOK {
		t.Error("a prefetch used the entry")
	}
	_, page, resp := get(entry, "", "Sec-Fetch-Site: cross-site")
	next := regexp.MustCompile(`url=http://([a-z0-9]+\.localhost:8265)(/rayctl/[A-Z0-9]+)"`).FindStringSubmatch(page)
	other := regexp.MustCompile(`href="http://rayctl:([A-Z0-9]+)@127.0.0.1:8265/"`).FindStringSubmatch(page)
	if next == nil || other == nil || len(resp.Cookies()) > 0 || !strings.Contains(page, `rel="icon" href="data:,"`) {
		t.Fatalf("the entry: %s, cookies %v", page, resp.Cookies())
	}
	own := next[1]
	if code, page, _ := get(entry, ""); code != http.StatusOK || used != 1 || strings.Contains(page, "/rayctl/") || !strings.Contains(page, "url=http://"+own+"/\"") {
		t.Errorf("the entry again: %d %s, used %d times", code, page, used)
	}
	_, page, resp = get(next[2], own, "Sec-Fetch-Site: cross-site")
	if cookies := resp.Cookies(); len(cookies) != 1 || cookies[0].Domain != "" || cookies[0].SameSite != http.SameSiteStrictMode || !cookies[0].HttpOnly || !strings.Contains(page, `url=/"`) {
		t.Fatalf("the own address: %s, cookies %v", page, cookies)
	}
	cookie := "Cookie: other=1; " + resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
	credentials := func(password string) string {
		r := &http.Request{Header: http.Header{}}
		r.SetBasicAuth("rayctl", password)
		return "Authorization: " + r.Header.Get("Authorization")
	}
	for _, c := range []struct {
		name, path, host string
		headers          []string
		want             int
	}{
		{"nobody", "/", "", nil, 401},
		{"nobody at the own name", "/", own, nil, 403},
		{"wrong cookie", "/", own, []string{"Cookie: " + sessionCookie + "=wrong"}, 403},
		{"wrong entry", "/rayctl/wrong", "", nil, 403},
		{"the session", "/", own, []string{cookie}, 200},
		{"its cookie at 127.0.0.1, which other ports get", "/", "", []string{cookie}, 401},
		{"credentials", "/", "", []string{credentials(other[1])}, 200},
		{"wrong credentials", "/", "", []string{credentials("wrong")}, 401},
		{"credentials at the own name", "/", own, []string{credentials(other[1])}, 403},
		{"rebound name", "/", "evil.example", []string{cookie, credentials(other[1])}, 421},
		{"another's name below localhost", "/", "evil.localhost:8265", []string{cookie}, 421},
		{"page of another origin", "/", own, []string{cookie, "Origin: http://evil.example"}, 403},
		{"page of another port", "/", own, []string{cookie, "Origin: http://" + p.name + ":9999"}, 403},
		{"page without an origin", "/", own, []string{cookie, "Origin: null"}, 403},
		{"image of another port", "/", own, []string{cookie, "Sec-Fetch-Site: same-site"}, 403},
		{"another port with credentials", "/", "", []string{credentials(other[1]), "Sec-Fetch-Site: same-site"}, 403},
		{"websocket of another page", "/", own, []string{cookie, "Connection: Upgrade", "Upgrade: websocket", "Origin: http://evil.example"}, 403},
		{"form of another site", "/", own, []string{cookie, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Site: cross-site", "Origin: http://evil.example"}, 403},
		{"frame of another site", "/", own, []string{cookie, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe", "Sec-Fetch-Site: cross-site"}, 403},
		{"script of another site", "/", own, []string{cookie, "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script", "Sec-Fetch-Site: cross-site"}, 403},
		{"own page", "/", own, []string{cookie, "Origin: http://" + own, "Sec-Fetch-Site: same-origin"}, 200},
	} {
		if got, body, _ := get(c.path, c.host, c.headers...); got != c.want {
			t.Errorf("%s: %d %s", c.name, got, body)
		}
	}
	link := []string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Site: cross-site"}
	if code, body, resp := get("/x?y=1&z", own, link...); code != http.StatusOK || !strings.Contains(body, `url=http://`+own+`/x?y=1&amp;z"`) || len(resp.Cookies()) > 0 {
		t.Errorf("a link on another site: %d %s", code, body)
	}
	if code, body, _ := get("//evil.example/", own, link...); code != http.StatusOK || !strings.Contains(body, "url=http://"+own+"//evil.example/") {
		t.Errorf("a link that leads elsewhere: %s", body)
	}
	slash := strings.TrimPrefix(p.EntryURL(), "http://"+p.address) + "/"
	if code, body, _ := get(slash, "", link...); code != http.StatusOK || !strings.Contains(body, own) {
		t.Errorf("an entry with a slash: %d %s", code, body)
	}
	if _, body, resp := get("/", own, cookie); body != "Bearer T other=1" || resp.Header.Get("Referrer-Policy") != "same-origin" {
		t.Errorf("the dashboard saw %q, %v", body, resp.Header)
	}
	if _, body, _ := get("/", "", credentials(other[1])); body != "Bearer T " {
		t.Errorf("the dashboard saw %q", body)
	}
}
