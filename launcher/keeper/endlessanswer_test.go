package keeper_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
)

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
