//go:build linux

package keeper_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/pace"
)

var dashboardPort = regexp.MustCompile(`dashboard/dashboard\.py\x00(?s:.*)--port=(23\d\d\d)\x00`)

// TestDashboardPortTaken: with a range of ports the head's are chosen before Ray binds them. Another process takes the dashboard's when it reads it in the command line
// of the dashboard, which has not listened yet. The cluster is started again with another port, long before lifetime.start has passed.
func TestDashboardPortTaken(t *testing.T) {
	pace.Parallel(t)
	r := newRig(t, "echo ran", func(o *keeper.Orders) { o.Ports = "23000-23999" }).start(nil)
	var taken net.Listener
	r.eventually("the dashboard's port to be taken", func() bool {
		taken = takePort(t)
		return taken != nil
	})
	defer taken.Close()
	r.commit(keeper.Commit{})
	final := r.result()
	if final.Exit.Code != 0 {
		t.Errorf("%+v", final.Exit)
	}
	if !noted(final, "StartFailed", "the dashboard cannot listen: Address already in use") {
		t.Errorf("the cause of the second start is not noted: %+v", final.Timeline)
	}
}

// TestRayStop: somebody runs `ray stop` on the host, which ends the Rays of all users whose processes it may end; here the driver does it, and sees no other Ray. The
// node is lost with that cause, and the run begins again, or ends.
func TestRayStop(t *testing.T) {
	needs.Root(t)
	pace.Parallel(t)
	r := newRig(t, `[ $RAYCTL_ATTEMPT = 1 ] || exit 7; echo stops; ray stop; exec sleep 600`, func(o *keeper.Orders) { o.Job.Restarts.NodeFailure = 1 })
	r.wrap = []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
	r.start(nil).commit(keeper.Commit{})
	final := r.result()
	if final.Exit.Code != 7 || len(final.Attempts) != 2 {
		t.Errorf("%+v, attempts %+v", final.Exit, final.Attempts)
	}
	if !noted(final, "NodeFailure", "was ended by SIGTERM, which rayctl has not sent: `ray stop` or `pkill`") {
		t.Errorf("the cause is not noted: %+v", final.Timeline)
	}
}

// noted reports whether the timeline has an event with that code and words.
func noted(s *runstate.State, code, words string) bool {
	return slices.ContainsFunc(s.Timeline, func(e runstate.Event) bool { return e.Code == code && strings.Contains(e.Message, words) })
}

// takePort binds the port of a dashboard that begins; nil: there is none.
func takePort(t *testing.T) net.Listener {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte("dashboard.py")) {
			continue
		}
		if found := dashboardPort.FindSubmatch(text); found != nil {
			l, err := net.Listen("tcp", "127.0.0.1:"+string(found[1]))
			if err != nil {
				t.Fatalf("port %s is not taken: %v", found[1], err)
			}
			return l
		}
	}
	return nil
}
