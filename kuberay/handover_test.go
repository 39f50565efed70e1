package kuberay

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/rayctl/rayctl/launcher"
)

// TestSendTells how far it has come as the bytes go, and sends all again when the way was cut. The server stands for a keeper only in
// that it takes them; the cut is a port-forward's.
func TestSendTells(t *testing.T) {
	cut := false
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if !cut {
			cut = true
			panic(http.ErrAbortHandler)
		}
		if n, err := io.Copy(io.Discard, r.Body); n != r.ContentLength || err != nil {
			t.Errorf("%d of %d bytes came: %v", n, r.ContentLength, err)
		}
	}))
	defer server.Close()
	k := launcher.KeeperClient(&launcher.Endpoint{URL: server.URL})
	defer k.Close()
	const total = 1 << 20
	file := filepath.Join(t.TempDir(), "HASH.zip")
	if err := os.WriteFile(file, make([]byte, total), 0o600); err != nil {
		t.Fatal(err)
	}
	var told []launcher.Progress
	pay := launcher.Payload{Progress: func(p launcher.Progress) { told = append(told, p) }}
	packages := &launcher.Packages{Files: []launcher.PackageFile{{URI: "gcs://_ray_pkg_HASH.zip", Path: file, Size: total}}}
	if err := sendPackages(t.Context(), k, packages, pay); err != nil {
		t.Fatal(err)
	}
	if len(told) < 2 || told[0].Done == 0 || told[len(told)-1] != (launcher.Progress{Text: "uploading HASH.zip", Done: total, Total: total}) {
		t.Errorf("told %+v", told)
	}
}
