package keeper_test

import (
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
