package app

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/dashboardclient"
)

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

// TestRayClientAddress: the order of the variables is that of get_address_for_submission_client in Ray 2.60.
func TestRayClientAddress(t *testing.T) {
	for _, c := range []struct {
		env               map[string]string
		address, variable string
	}{
		{nil, "", ""},
		{map[string]string{"RAY_API_SERVER_ADDRESS": "http://a:1", "RAY_ADDRESS": "http://b:2"}, "http://a:1", "RAY_API_SERVER_ADDRESS"},
		{map[string]string{"RAY_ADDRESS": "https://b:2"}, "https://b:2", "RAY_ADDRESS"},
		{map[string]string{"RAY_ADDRESS": "10.0.0.1:6379"}, "", ""}, // a GCS
		{map[string]string{"RAY_ADDRESS": "auto"}, "", ""},
		{map[string]string{"RAY_ADDRESS": "ray://b:10001"}, "", ""},
	} {
		if address, variable := rayAddress(environment(c.env)); address != c.address || variable != c.variable {
			t.Errorf("%v gives %q of %q", c.env, address, variable)
		}
	}
}

// TestRayClientRefused: each wrong input has one sentence, without the secrets in it.
func TestRayClientRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		address, variable, verify, headers, want string
	}{
		{"nonsense", "", "", "", `"nonsense" is not the address of a dashboard: give it like http://`},
		{"127.0.0.1:8265", rayAddressVariable, "", "", `RAY_API_SERVER_ADDRESS is "127.0.0.1:8265", which is not the address of a dashboard`},
		{"http://me:hush@:x", rayAddressVariable, "", "", `RAY_API_SERVER_ADDRESS is "(not shown)"`},
		{"http://a", "", "", "X: hush", `RAY_JOB_HEADERS is not a JSON object of HTTP headers: write it like {"X-Team": "rl"}`},
		{"http://a", "", "", `["hush"]`, "RAY_JOB_HEADERS is not a JSON object"},
		{"http://a", "", "", "null", "RAY_JOB_HEADERS is not a JSON object"},
		{"http://a", "", "", `{"X": {"hush": 1}}`, "RAY_JOB_HEADERS has a value of X that cannot be sent"},
		{"http://a", "", "", `{"X": "hush\r\nY: z"}`, "RAY_JOB_HEADERS has a value of X that cannot be sent"},
		{"http://a", "", "", `{"X Y": "hush"}`, `RAY_JOB_HEADERS has "X Y", which cannot be the name of an HTTP header`},
		{"http://a", "", "/no/such.pem", "", `--verify: "/no/such.pem" does not exist: give true, false, or a file`},
		{"http://a", "", empty, "", "has no certificate"},
	} {
		_, err := rayConfig(c.address, c.variable, c.verify, environment(map[string]string{"RAY_JOB_HEADERS": c.headers}))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestRayClientSent: headers and certificates are used, and headers go before the token.
func TestRayClientSent(t *testing.T) {
	var seen http.Header
	var host string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen, host = r.Header, r.Host
		_, _ = w.Write([]byte(`{"version": "4", "ray_version": "2.60.0"}`))
	}))
	defer server.Close()
	server.Config.ErrorLog = nil
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(verify, headers string) error {
		config, err := rayConfig(server.URL, rayAddressVariable, verify, environment(map[string]string{"RAY_AUTH_TOKEN": "token", "RAY_JOB_HEADERS": headers}))
		if err != nil {
			return err
		}
		config.Retry = dashboardclient.Retry{Max: -1}
		client, err := dashboardclient.New(config)
		if err != nil {
			return err
		}
		_, err = client.Version(context.Background())
		return err
	}
	for _, verify := range []string{"", "true", "True", "1"} {
		err := ask(verify, `{"X-Secret": "hush"}`)
		if err == nil || !strings.Contains(err.Error(), "(RAY_API_SERVER_ADDRESS): tls: failed to verify certificate") ||
			!strings.HasSuffix(err.Error(), ": give the certificate of its authority with --verify FILE") || strings.Contains(err.Error(), "hush") || seen != nil {
			t.Errorf("--verify %q: %v, the server saw %v", verify, err, seen)
		}
	}
	for _, verify := range []string{"false", "False", "0", ca, dir} {
		if err := ask(verify, `{"x-team": "rl", "host": "ray.example.com"}`); err != nil {
			t.Errorf("--verify %q: %v", verify, err)
		}
		if seen.Get("X-Team") != "rl" || seen.Get("Authorization") != "Bearer token" || host != "ray.example.com" {
			t.Errorf("sent: %v to %s", seen, host)
		}
	}
	if err := ask(ca, `{"authorization": "Basic eDp5"}`); err != nil || seen.Get("Authorization") != "Basic eDp5" {
		t.Errorf("%v, sent: %v", err, seen)
	}
}
