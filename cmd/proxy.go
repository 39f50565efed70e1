package cmd

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/rayctl/rayctl/launcher"
)

// proxy gives one browser the dashboard: whoever knows the secret of the entry URL gets a cookie, and requests with the cookie go to the
// dashboard with the cluster's token. The Host header must be ours, so that a page of another origin cannot use rebound DNS.
type proxy struct {
	address string // host:port that we serve on
	secret  string
	cookie  string // its name; cookies ignore ports, so each proxy has its own
	forward *httputil.ReverseProxy
}

func newProxy(e *launcher.Endpoint, address string) (*proxy, error) {
	target, err := url.Parse(e.URL)
	if err != nil {
		return nil, fmt.Errorf("the dashboard's address %q: %w", e.URL, err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	p := &proxy{address: address, secret: rand.Text(), cookie: "rayctl-" + port}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	if e.DialContext != nil {
		transport.DialContext = e.DialContext
	}
	p.forward = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			removeCookie(r.Out, p.cookie)
			if e.Token != "" {
				r.Out.Header.Set(e.TokenHeader, "Bearer "+e.Token)
			}
			if r.Out.Header.Get("Origin") != "" {
				r.Out.Header.Set("Origin", target.Scheme+"://"+target.Host)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "The dashboard does not answer: "+err.Error(), http.StatusBadGateway)
		},
	}
	return p, nil
}

// entryURL is what the user opens; it holds the secret.
func (p *proxy) entryURL() string { return "http://" + p.address + "/rayctl/" + p.secret }

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Host != p.address && r.Host != strings.Replace(p.address, "127.0.0.1", "localhost", 1) {
		http.Error(w, "This address is not served here.", http.StatusMisdirectedRequest)
		return
	}
	if given, entry := strings.CutPrefix(r.URL.Path, "/rayctl/"); entry && p.matches(given) {
		http.SetCookie(w, &http.Cookie{Name: p.cookie, Value: p.secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		w.Header().Set("Referrer-Policy", "no-referrer")
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	if c, err := r.Cookie(p.cookie); err != nil || !p.matches(c.Value) {
		http.Error(w, "Open the URL that `rayctl dashboard` printed.", http.StatusForbidden)
		return
	}
	p.forward.ServeHTTP(w, r)
}

func (p *proxy) matches(given string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(p.secret)) == 1
}

// removeCookie keeps our secret from the dashboard.
func removeCookie(r *http.Request, name string) {
	cookies := r.Cookies()
	r.Header.Del("Cookie")
	for _, c := range cookies {
		if c.Name != name {
			r.AddCookie(c)
		}
	}
}
