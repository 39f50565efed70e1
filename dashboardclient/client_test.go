package dashboardclient_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/test/raytest"
)

func TestVersion(t *testing.T) {
	onEach(t, func(t *testing.T, client *dashboardclient.Client, ctx context.Context) {
		info, err := client.WaitReady(ctx)
		if err != nil {
			t.Fatal(err)
		}
		version := strings.TrimPrefix(t.Name(), "TestVersion/")
		if info.RayVersion != version || info.APIVersion != "4" || (info.SessionName == "") != (version == raytest.Ray29) {
			t.Errorf("%+v", info)
		}
		mode, err := client.AuthMode(ctx)
		if want := map[bool]dashboardclient.AuthMode{true: dashboardclient.AuthToken, false: dashboardclient.AuthDisabled}[version == raytest.Ray260]; err != nil || mode != want {
			t.Errorf("authentication is %q (%v)", mode, err)
		}
	})
}

func TestTokens(t *testing.T) {
	head := raytest.Shared(t, raytest.Ray260)
	newline := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(newline, []byte(head.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		config dashboardclient.Config
		want   error
	}{
		"right":          {dashboardclient.Config{Token: head.Token}, nil},
		"other header":   {dashboardclient.Config{Token: head.Token, TokenHeader: dashboardclient.HeaderRayAuthorization}, nil},
		"from a file":    {dashboardclient.Config{TokenFile: newline}, nil},
		"none":           {dashboardclient.Config{}, dashboardclient.ErrUnauthorized},
		"wrong":          {dashboardclient.Config{Token: "wrong-token"}, dashboardclient.ErrUnauthorized},
		"no such file":   {dashboardclient.Config{TokenFile: newline + ".none"}, os.ErrNotExist},
		"prefix of path": {dashboardclient.Config{Token: head.Token, URL: head.URL + "/"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if test.config.URL == "" {
				test.config.URL = head.URL
			}
			client, err := dashboardclient.New(test.config)
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.WaitReady(t.Context())
			if !errors.Is(err, test.want) {
				t.Fatalf("%v, not %v", err, test.want)
			}
			if err != nil && (strings.Contains(err.Error(), "wrong-token") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("the error is %q", err)
			}
		})
	}
}

// TestTokenHeader: the token goes in one header alone, that of the configuration; Ray itself takes it in either.
func TestTokenHeader(t *testing.T) {
	for given, want := range map[string]string{"": dashboardclient.HeaderAuthorization, dashboardclient.HeaderAuthorization: dashboardclient.HeaderAuthorization, dashboardclient.HeaderRayAuthorization: dashboardclient.HeaderRayAuthorization} {
		var sent http.Header
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent = r.Header
			_, _ = w.Write([]byte("[]"))
		}))
		defer server.Close()
		client, err := dashboardclient.New(dashboardclient.Config{URL: server.URL, Token: "secret", TokenHeader: given})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.ListJobs(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, header := range []string{dashboardclient.HeaderAuthorization, dashboardclient.HeaderRayAuthorization} {
			if got := sent.Get(header); (got == "Bearer secret") != (header == want) || header != want && got != "" {
				t.Errorf("TokenHeader %q: %s is %q", given, header, got)
			}
		}
	}
}

// TestNoDashboard queries servers that are not dashboards.
func TestNoDashboard(t *testing.T) {
	serve := func(handler http.HandlerFunc) string {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		return server.URL
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	var leaked string
	elsewhere := serve(func(_ http.ResponseWriter, r *http.Request) { leaked = r.Header.Get("Authorization") })
	for name, test := range map[string]struct{ url, want string }{
		"nothing listens": {closed.URL, "refused"},
		"web page":        {serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html><title>Welcome</title>")) }), "Welcome"},
		"other JSON":      {serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }), "not a Ray dashboard"},
		"login":           {serve(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, http.StatusFound) }), elsewhere},
	} {
		client, err := dashboardclient.New(dashboardclient.Config{URL: test.url, Token: "secret", Retry: dashboardclient.Retry{Max: -1}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Version(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if errors.Is(err, dashboardclient.ErrUnreachable) != (name == "nothing listens") {
			t.Errorf("%s is unreachable or not: %v", name, err)
		}
	}
	if leaked != "" {
		t.Error("the token went to another server")
	}
	for _, url := range []string{"", "127.0.0.1:8265", "ftp://x", "http://", "http://a b"} {
		if _, err := dashboardclient.New(dashboardclient.Config{URL: url}); err == nil {
			t.Errorf("%q was taken for a URL", url)
		}
	}
}

func TestContextEndsRetries(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	client, err := dashboardclient.New(dashboardclient.Config{URL: closed.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.ListJobs(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, dashboardclient.ErrUnreachable) {
		t.Error(err)
	}
}

// TestTunnelNeedsNoProxy: a proxy from the environment is used for dashboards reached by their address, not for those behind a tunnel.
func TestTunnelNeedsNoProxy(t *testing.T) {
	usual := http.DefaultTransport.(*http.Transport) // the environment's proxies are read once, which is too early for a test
	before := usual.Proxy
	t.Cleanup(func() { usual.Proxy = before })
	usual.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.example:3128", User: url.UserPassword("user", "secret")})
	var asked *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		_, _ = w.Write([]byte(`{"version": "4", "ray_version": "2.60.0"}`))
	}))
	t.Cleanup(server.Close)
	var dialled string
	client, err := dashboardclient.New(dashboardclient.Config{
		URL: "http://head.example:8265",
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled = address
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	if dialled != "head.example:8265" || asked.Header.Get("Proxy-Authorization") != "" || strings.HasPrefix(asked.RequestURI, "http") {
		t.Errorf("dialled %s, asked %s with %v", dialled, asked.RequestURI, asked.Header)
	}
}
