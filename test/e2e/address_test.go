package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestAddress uses the cluster's dashboard by its address.
func TestAddress(t *testing.T) {
	u := sharedCluster(t)
	vars := decode[map[string]string](t, u.want(0, "env", "shared", "-o", "json").out)
	address := vars["RAY_API_SERVER_ADDRESS"]
	home := t.TempDir()
	u.env = []string{"HOME=" + home}
	contains(t, "without a token", u.want(runstate.CodePermission, "jobs", "--address", address).err, "token")
	u.env = []string{"RAY_AUTH_TOKEN=wrong"}
	u.want(runstate.CodePermission, "jobs", "--address", address)
	u.env = []string{"RAY_AUTH_TOKEN_PATH=" + vars["RAY_AUTH_TOKEN_PATH"]}
	if got := u.want(0, "submit", "--address", address, "--", "echo", "hello").out; got != "hello\n" {
		t.Errorf("output %q", got)
	}
	u.env = []string{"RAY_AUTH_TOKEN_PATH=/nosuch"}
	u.want(runstate.CodeConfig, "jobs", "--address", address)
	u.env = []string{"RAY_AUTH_TOKEN_PATH=/nosuch", "RAY_API_SERVER_ADDRESS=" + address} // of a cluster of ours: reached as one
	contains(t, "the note", u.want(0, "jobs").err, "local cluster shared")
	token, err := os.ReadFile(vars["RAY_AUTH_TOKEN_PATH"])
	if err != nil {
		t.Fatal(err)
	}
	u.env = []string{"HOME=" + home, "RAY_API_SERVER_ADDRESS=" + address, `RAY_JOB_HEADERS={"authorization": "Bearer ` + strings.TrimSpace(string(token)) + `"}`}
	contains(t, "the note", u.want(0, "jobs", "--verify", "true").err, "the dashboard of RAY_API_SERVER_ADDRESS")
}
