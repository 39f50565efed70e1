package dashboardclient_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/dashboardclient"
)

// TestAnswers tests answers that do not come from Ray's dashboard, but from proxies before it and wrong servers. They stop, have no end, ask for
// an hour's wait (nginx's limit_req with Retry-After, RFC 9110, 10.2.3), or want a token of their own (an OAuth proxy's 401).
func TestAnswers(t *testing.T) {
	stopped := make(chan struct{})
	t.Cleanup(func() { close(stopped) })
	endless := func(w io.Writer) {
		piece := bytes.Repeat([]byte(`"x",`), 256<<10)
		for _, err := io.WriteString(w, "["); err == nil; _, err = w.Write(piece) {
		}
	}
	stops := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `[{"type":`) // the client reports this
			w.(http.Flusher).Flush()
			<-stopped
		}
	}
	busy := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// Enough for a loaded machine to begin an answer. What never stops is read with the default, because it may pause as long.
	brief := dashboardclient.Config{Silence: 3 * time.Second}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		config  dashboardclient.Config
		words   string
	}{
		"stops":               {stops(http.StatusOK), brief, "the answer stopped for 3s before its end"},
		"an error that stops": {stops(http.StatusInternalServerError), brief, `list jobs: [{"type":`},
		"busy and stops":      {stops(http.StatusBadGateway), brief, `list jobs: [{"type":`},
		"never begins":        {func(http.ResponseWriter, *http.Request) { <-stopped }, brief, "no answer"},
		"no end":              {func(w http.ResponseWriter, _ *http.Request) { endless(w) }, dashboardclient.Config{}, "the answer is too long: it has more than 128 MiB"},
		"busy":                {busy, dashboardclient.Config{Retry: dashboardclient.Retry{Max: -1}}, "busy: it answered 503 Service Unavailable, with Retry-After: 3600"},
		"wants a token":       {refuses, dashboardclient.Config{}, "requires a token, and none was given"},
		"wants another":       {refuses, dashboardclient.Config{Token: "secret-token"}, "does not accept the token that was given"},
		"in the other header": {refuses, dashboardclient.Config{Token: "secret-token", TokenHeader: dashboardclient.HeaderRayAuthorization}, "does not accept the token that was given"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(test.handler)
			t.Cleanup(server.CloseClientConnections)
			config := test.config
			config.URL = server.URL
			if config.Retry.Max == 0 {
				config.Retry.Max = 1
			}
			client, err := dashboardclient.New(config)
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.ListJobs(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.words) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, want %q", err, test.words)
			}
		})
	}
}

func refuses(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }

// TestRetryAfter: a requested wait is bounded, and logged before it begins.
func TestRetryAfter(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	told := make(chan string, 10)
	client, err := dashboardclient.New(dashboardclient.Config{URL: server.URL, Logger: slog.New(slog.NewTextHandler(writes(told), nil))})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = client.ListJobs(t.Context()) }() // until the test's end
	if line := <-told; !strings.Contains(line, "asked=1h0m0s") || !strings.Contains(line, "waiting=10s") {
		t.Errorf("told: %s", line)
	}
}

type writes chan string

func (w writes) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}
