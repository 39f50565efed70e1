package e2e

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestClusterCommands queries the shared cluster and changes its limits.
func TestClusterCommands(t *testing.T) {
	u := sharedCluster(t)
	u.want(0, "up", "shared", "--workers", "2", "--cpus-per-worker", "2", "--label", "test=e2e") // the same cluster
	contains(t, "the difference", u.want(65, "up", "shared", "--workers", "3", "--cpus-per-worker", "2", "--label", "test=e2e").err, "the changed file cannot be applied to shared: group worker is not elastic")
	contains(t, "ls", u.want(0, "ls", "-l", "test=e2e", "-o", "name").out, "shared")
	if out := u.want(0, "ls", "-l", "test=other", "-o", "json").out; strings.TrimSpace(out) != "[]" {
		t.Errorf("ls of another label: %s", out)
	}
	contains(t, "status", u.want(0, "status", "shared").out, "Ready", "2 of 2", "worker-1", "lifetime.max", "lifetime.idle")
	contains(t, "extend", u.want(0, "extend", "shared", "--by", "2h", "--idle", "unlimited").out, "max")
	contains(t, "extend does not shorten", u.want(runstate.CodeUsage, "extend", "shared", "--max", "1m").err, "earlier than at present", "`--at-most 1m`")
	contains(t, "unless it is asked to", u.want(0, "extend", "shared", "--at-most", "2h").out, "max")
	if out := u.want(0, "status", "shared").out; strings.Contains(out, "lifetime.idle") {
		t.Errorf("still ends idle: %s", out)
	}
	contains(t, "node logs", u.want(0, "logs", "shared", "--node", "worker-1").out, "raylet.out")
	contains(t, "no node log", u.want(65, "logs", "shared", "--node", "worker-1", "--file", "nosuch").err, "no such log file")
	contains(t, "a job that is not there", u.want(65, "logs", "raysubmit_NOSUCH").err, "raysubmit_NOSUCH")
	contains(t, "a node log", u.want(0, "logs", "shared", "--node", "worker-1", "--file", "raylet.out").out, "(raylet)")
	if out := u.want(0, "logs", "shared", "--node", "worker-1", "--file", "raylet.out", "--tail", "5").out; out == "" || strings.Count(out, "\n") > 5 {
		t.Errorf("the last 5 lines of a node's log: %q", out)
	}
	contains(t, "top", u.want(0, "top", "shared").out, "worker-1", "0/2", "GiB")
	if out := u.want(0, "gc", "--dry-run", "-o", "json").out; strings.Contains(out, "shared") {
		t.Errorf("gc would remove a living cluster: %s", out)
	}
	contains(t, "completion", u.want(0, "__complete", "status", "").out, "shared\t")
}
