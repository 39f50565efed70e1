package e2e

import (
	"crypto/rand"
	"testing"
)

// TestRefusedOnACluster: mistakes are reported before anything is sent.
func TestRefusedOnACluster(t *testing.T) {
	u := sharedCluster(t)
	contains(t, "logs", u.want(64, "logs", "shared", "--node", "worker-1", "--file", "../x").err, "../x", "directory of logs")
	noise := make([]byte, 101<<20) // does not compress
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	u.write("large/noise", string(noise))
	contains(t, "submit", u.want(65, "submit", "shared", "--working-dir", "large", "--", "true").err, "100 MiB", "noise")
}
