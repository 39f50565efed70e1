package access

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rayctl/rayctl/dashboardclient/proven"
	"github.com/rayctl/rayctl/launcher"
)

// dashProxy serves a cluster's dashboard to its user's browser only, and to no other user of this machine. An entry works once: it sends the browser to the proxy's own name below localhost, which
// browsers resolve to loopback (RFC 6761, 6.3). The session is a cookie of that name: a cookie of 127.0.0.1 would be sent to all of its ports, including
// those of other users. A browser that does not resolve such names gets the session as credentials for this port (RFC 7617). Requests with a session
// are forwarded to the dashboard with the cluster's token. A link on another site, which browsers follow without a strict cookie, and an entry that was used lead
// to the dashboard only a browser that has the session. The proxy refuses other names in Host than its own and loopback's (DNS rebinding), and
// requests by pages of other origins, including other ports of loopback.
type dashProxy struct {
	address string // 127.0.0.1:port of this server; behind `ssh -L` the browser has another port
	name    string // the proxy's own host name
	session string
	forward *httputil.ReverseProxy
	Used    func() // an entry was used

	mu      sync.Mutex
	entries map[string]bool // unused ones; true: printed for the user
	used    map[string]bool // of those that were printed
}

const (
	sessionCookie = "rayctl-session"
	sessionUser   = "rayctl"
	entryPath     = "/rayctl/"
	dialTimeout   = 15 * time.Second // of a connection to the dashboard, until it has accepted it
)

// newDashProxy returns the proxy that is served on an address of loopback.
func newDashProxy(e *launcher.Endpoint, address string) (*dashProxy, error) {
	target, err := url.Parse(e.URL)
	if err != nil {
		return nil, fmt.Errorf("the dashboard's address %q: %w", e.URL, err)
	}
	p := &dashProxy{address: address, name: strings.ToLower(rand.Text()) + ".localhost", session: rand.Text(), Used: func() {}, entries: map[string]bool{}, used: map[string]bool{}}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy, transport.DialContext = nil, proven.Dial(dialTimeout)
	if e.DialContext != nil {
		transport.DialContext = e.DialContext
	}
	p.forward = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			removeCookie(r.Out, sessionCookie)
			r.Out.Header.Del("Authorization") // may be the proxy's session
			if e.Token != "" {
				r.Out.Header.Set(e.TokenHeader, "Bearer "+e.Token)
			}
			if r.Out.Header.Get("Origin") != "" {
				r.Out.Header.Set("Origin", target.Scheme+"://"+target.Host)
			}
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Referrer-Policy", "same-origin") // keeps the proxy's name private
			r.Header.Set("X-Frame-Options", "SAMEORIGIN")
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "The dashboard does not answer: "+err.Error(), http.StatusBadGateway)
		},
	}
	return p, nil
}

// EntryURL makes an entry for one use.
func (p *dashProxy) EntryURL() string { return "http://" + p.address + entryPath + p.newEntry(true) }

func (p *dashProxy) newEntry(given bool) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := rand.Text()
	p.entries[entry] = given
	return entry
}

// take consumes an entry.
func (p *dashProxy) take(entry string) bool {
	p.mu.Lock()
	given, ok := p.entries[entry]
	delete(p.entries, entry)
	if given {
		p.used[entry] = true
	}
	p.mu.Unlock()
	if given {
		p.Used()
	}
	return ok
}

// ServeHTTP implements http.Handler.
func (p *dashProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, port := splitHost(r.Host)
	own := host == p.name
	entry, entering := strings.CutPrefix(r.URL.Path, entryPath)
	switch {
	case !own && host != "127.0.0.1" && host != "localhost":
		http.Error(w, "This address is not served here.", http.StatusMisdirectedRequest)
	case entering && r.Method == http.MethodGet && r.Header.Get("Sec-Purpose") == "": // not a browser's prefetch
		p.enter(w, strings.TrimSuffix(entry, "/"), own, host, port)
	case isLink(r):
		here := *r.URL
		here.Scheme, here.Host = "http", r.Host
		askAgain(w, here.String())
	case !fromOwnPage(r):
		http.Error(w, "Pages of other origins have no access.", http.StatusForbidden)
	case own && p.hasCookie(r), !own && p.hasCredentials(r):
		p.forward.ServeHTTP(w, r)
	case own:
		http.Error(w, openLast, http.StatusForbidden)
	default:
		w.Header().Set("WWW-Authenticate", `Basic realm="Open the URL that rayctl dashboard printed"`)
		http.Error(w, openLast, http.StatusUnauthorized)
	}
}

const openLast = "Open the URL that `rayctl dashboard` printed last, in its terminal: each is good for one browser."

// enter answers an entry with a page, not a redirect: browsers attribute a redirect to the page before it and then withhold a strict cookie.
func (p *dashProxy) enter(w http.ResponseWriter, entry string, own bool, host, port string) {
	if !p.take(entry) {
		p.mu.Lock()
		used := p.used[entry]
		p.mu.Unlock()
		if used && !own { // the same browser may follow the link again
			askAgain(w, "http://"+net.JoinHostPort(p.name, port)+"/")
			return
		}
		http.Error(w, "This URL was used already, or is not valid. `rayctl dashboard` prints a new URL when one has been used.", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	if own {
		http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: p.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		_, _ = io.WriteString(w, redirectPage("/", ""))
		return
	}
	at := func(host string) string { return "http://" + net.JoinHostPort(host, port) }
	other := "http://" + sessionUser + ":" + p.session + "@" + net.JoinHostPort(host, port) + "/"
	_, _ = io.WriteString(w, redirectPage(at(p.name)+entryPath+p.newEntry(false), other))
}

// redirectPage is a page that leads to an address; other is for browsers that cannot resolve it. It names no icon, as browsers ask for /favicon.ico otherwise.
func redirectPage(address, other string) string {
	page := `<!doctype html><meta name="referrer" content="no-referrer"><link rel="icon" href="data:,"><meta http-equiv="refresh" content="0; url=` + html.EscapeString(address) + `"><title>rayctl</title>`
	if other != "" {
		page += `<p>If your browser does not find the dashboard's own address, go back and <a href="` + html.EscapeString(other) + `">open it here</a>.`
	}
	return page + "\n"
}

// askAgain is a page that leads to an address of the proxy. From it the browser sends the strict cookie, if it has one.
func askAgain(w http.ResponseWriter, address string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, redirectPage(address, ""))
}

// isLink recognizes that the user follows a link of another site, in a tab of its own: a page that only has a request sent cannot make it look so.
func isLink(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		r.Header.Get("Origin") == "" && slices.Contains([]string{"cross-site", "same-site"}, r.Header.Get("Sec-Fetch-Site"))
}

// fromOwnPage rejects requests by pages of other origins, also of other ports, which cookies do not distinguish. Other clients send neither header.
func fromOwnPage(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return false
}

func (p *dashProxy) hasCookie(r *http.Request) bool {
	c, err := r.Cookie(sessionCookie)
	return err == nil && p.matches(c.Value)
}

func (p *dashProxy) hasCredentials(r *http.Request) bool {
	name, password, ok := r.BasicAuth()
	return ok && name == sessionUser && p.matches(password)
}

func (p *dashProxy) matches(given string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(p.session)) == 1
}

// splitHost splits a Host header.
func splitHost(text string) (host, port string) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return strings.ToLower(text), "80"
	}
	return strings.ToLower(host), port
}

// removeCookie removes the proxy's secret from a request to the dashboard.
func removeCookie(r *http.Request, name string) {
	cookies := r.Cookies()
	r.Header.Del("Cookie")
	for _, c := range cookies {
		if c.Name != name {
			r.AddCookie(c)
		}
	}
}
