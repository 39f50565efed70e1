package keeper_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/raytest"
)

// The name service is unavailable for longer than a head may refuse connections, and the keeper of an external cluster goes on with the known address.
// The keeper uses the real resolver with a hosts file of its own.
func TestNameServiceAway(t *testing.T) {
	needs.Root(t)
	t.Parallel()
	head := raytest.Shared(t, raytest.Ray260)
	hosts := filepath.Join(t.TempDir(), "hosts")
	write := func(text string) {
		if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("127.0.0.1 head.rayctl.test\n")
	r := newRig(t, "echo begun; sleep 45; exit 6", func(o *keeper.Orders) {
		named := func(address string) string { return strings.Replace(address, "127.0.0.1", "head.rayctl.test", 1) }
		o.Start = keeper.Start{Mode: keeper.StartExternal, Dashboard: named(head.URL), GCS: named(head.GCSAddress)}
		o.WatchStdin = false
		o.Job.SubmissionPrefix = o.Name
	})
	r.token = head.Token
	r.wrap = []string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, hosts}
	r.start(nil)
	r.must(r.dir.Commit(keeper.Commit{}))
	r.state("the driver runs", running)
	if !strings.HasPrefix(r.orders.Start.Dashboard, "http://head.rayctl.test:") {
		t.Fatalf("the head has no name: %s", r.orders.Start.Dashboard)
	}
	write("")
	if end := r.result(); end.Exit.Cause != runstate.CauseDriverFailed || end.Exit.Code != 6 || slices.ContainsFunc(end.Timeline, unresolved) {
		t.Errorf("exit: %+v, %+v", end.Exit, end.Timeline)
	}
}

// unresolved reports a silent head, other than one that is slow to answer, such as the dashboard of a busy machine.
func unresolved(e runstate.Event) bool {
	return aboutHead(e) && e.To == "silent" && !strings.Contains(e.Message, "timed out")
}
