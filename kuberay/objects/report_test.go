package objects

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	keeperzip "github.com/rayctl/rayctl/keeper"
)

// TestReportAsksAgain: a failed setup is reported to a keeper that cannot be reached at first (a fake: a mesh or a proxy in front of a keeper's pod that is
// being replaced).
func TestReportAsksAgain(t *testing.T) {
	var told []string
	keeper := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if told = append(told, string(body)); len(told) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	log := filepath.Join(t.TempDir(), "setup.log")
	for name, text := range map[string]string{log: "the licence server is away\n", log + ".whole": ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-E", "-s", "-B", "../../keeper", keeperzip.Report, log)
	cmd.Env = append(os.Environ(), "RAYCTL_KEEPER="+keeper.URL, "RAYCTL_KEEPER_TOKEN=token")
	out, err := cmd.CombinedOutput()
	keeper.Close() // after this nobody writes told
	if err != nil || len(out) > 0 || len(told) != 2 || !strings.Contains(told[1], "the licence server is away") {
		t.Errorf("%v, printed %q, told %q", err, out, told)
	}
}
