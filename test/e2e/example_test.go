package e2e

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestElasticExample: nodes come for three tasks and go after them, and the receipt counts them for as long as they were there.
func TestElasticExample(t *testing.T) {
	r := exampleUser(t).runExample("run", "-v", "-f", example(t, "elastic", "rayctl.yaml"))
	if want := regexp.MustCompile(`(?s)` + elasticLines + `\n\z`); !want.MatchString(r.out) {
		t.Errorf("printed %q, want %s", r.out, want)
	}
	contains(t, "the receipt", r.err, "nodes   3: ")
}

// TestServeExample applies the Serve example, calls it over HTTP, and deletes it.
func TestServeExample(t *testing.T) {
	u := exampleUser(t)
	dir := filepath.Join(u.dir, "serve")
	if err := os.CopyFS(dir, os.DirFS(example(t, "serve"))); err != nil {
		t.Fatal(err)
	}
	u.runExample("up", "words", "-f", filepath.Join(dir, "rayctl.yaml"))
	applied := u.runExample("serve", "apply", "-f", filepath.Join(dir, "serve.yaml"), "words")
	contains(t, "the answer", post(t, serveURL(t, applied.err, "languages"), "Wo ist der Bahnhof?"), `"german"`)
	contains(t, "serve status", u.runExample("serve", "status", "words").out, "languages", "RUNNING")
	u.runExample("serve", "delete", "words")
	if out := u.runExample("serve", "status", "words", "-o", "json").out; strings.Contains(out, "RUNNING") {
		t.Errorf("after the deletion: %s", out)
	}
	token := decode[map[string]string](t, u.runExample("env", "words", "-o", "json").out)["RAY_AUTH_TOKEN_PATH"]
	u.want(0, "down", "words")
	if _, err := os.Stat(token); token == "" || !os.IsNotExist(err) {
		t.Errorf("the token file %q of a cluster that has ended: %v", token, err)
	}
}

func post(t *testing.T, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v, %v, %s", url, resp.Status, err, b)
	}
	return string(b)
}
