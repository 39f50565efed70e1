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
// of the dashboard, which waits for that before it listens. The cluster is started again with another port, long before lifetime.start has passed.
func TestDashboardPortTaken(t *testing.T) {
	pace.Parallel(t)
	site := t.TempDir()
	if err := os.WriteFile(filepath.Join(site, "sitecustomize.py"), []byte(dashboardWaits), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, "echo ran", func(o *keeper.Orders) {
		o.Ports, o.Groups[0].Env = "23000-23999", map[string]string{"PYTHONPATH": site}
	}).start(nil)
	var taken net.Listener
	r.eventually("the dashboard's port to be taken", func() bool {
		taken = takePort(t)
		return taken != nil
	})
	defer taken.Close()
	if err := os.WriteFile(filepath.Join(site, "taken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.commit(keeper.Commit{})
	final := r.result()
	if final.Exit.Code != 0 {
		t.Errorf("%+v", final.Exit)
	}
	if !noted(final, "StartFailed", "the dashboard cannot listen: Address already in use") {
		t.Errorf("the cause of the second start is not noted: %+v", final.Timeline)
	}
}

// dashboardWaits holds a dashboard up, before any of its own code runs, until there is the file "taken".
const dashboardWaits = `import os, sys, time
if any(a.endswith("dashboard/dashboard.py") for a in sys.orig_argv):
    while not os.path.exists(os.path.join(os.path.dirname(__file__), "taken")):
        time.sleep(0.05)
`

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
