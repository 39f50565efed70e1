package keeper_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/test/pace"
)

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

var dashboardPort = regexp.MustCompile(`dashboard/dashboard\.py\x00(?s:.*)--port=(23\d\d\d)\x00`)
