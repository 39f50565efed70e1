package keeper_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
)

// TestRedirect: whoever listens in the keeper's place and redirects gets neither the token nor the request at another port, or at the same one.
func TestRedirect(t *testing.T) {
	var followed atomic.Int64
	count := func(http.ResponseWriter, *http.Request) { followed.Add(1) }
	elsewhere := httptest.NewServer(http.HandlerFunc(count))
	defer elsewhere.Close()
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		for _, to := range []string{elsewhere.URL, "/other"} {
			mux := http.NewServeMux()
			mux.HandleFunc("/other", count)
			mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, code) })
			server := httptest.NewServer(mux)
			c := keeper.NewClient(keeper.Endpoint{URL: server.URL, Token: "secret"})
			_, read := c.State(t.Context())
			_, write := c.End(t.Context(), keeper.End{})
			for what, err := range map[string]error{"GET": read, "POST": write, "PUT": c.PutPackage(t.Context(), "a", 1, strings.NewReader("a"))} {
				if err == nil || !strings.Contains(err.Error(), "redirect to "+to) {
					t.Errorf("%s, %d to %s: %v", what, code, to, err)
				}
			}
			c.Close()
			server.Close()
		}
	}
	if n := followed.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// A keeper's old address may belong to another program by now, whose answer never ends.
func TestEndlessAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		piece := strings.Repeat(" ", 1<<20)
		for _, err := io.WriteString(w, piece); err == nil; _, err = io.WriteString(w, piece) {
		}
	}))
	defer server.Close()
	keeper.LongestState(t, 1<<20)
	c := keeper.NewClient(keeper.Endpoint{URL: server.URL})
	defer c.Close()
	if _, err := c.State(t.Context()); err == nil || !strings.Contains(err.Error(), "is too long: it has more than 1 MiB") {
		t.Error(err)
	}
}
