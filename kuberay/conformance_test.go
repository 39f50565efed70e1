package kuberay_test

import (
	"testing"

	"github.com/rayctl/rayctl/launcher/conformance"
)

// TestConformance has no pace.Parallel: its scenarios run before the tests that do, side by side. Go would begin it among the last ones, and its scenarios would be
// what runs alone in the end.
func TestConformance(t *testing.T) {
	c := newBed(t).conformance()
	c.Elsewhere = map[string]string{
		// The keeper's and Ray's, which are the same on local.
		"runtime environment that fails": "local", "interrupt twice": "TestCtrlCTwice", "end on disconnect": "local", "prepare, then the driver": "local", "prepare hangs": "local",
		"drivers that fail, and restarts": "local", "warned of the end": "local", "driver that fails because its node is lost": "local",
		"dashboard frozen for a minute": "local", "two clusters side by side": "local",

		"queue limit":                            "TestQueueFull",
		"elastic group":                          "TestElastic/Example",
		"early head":                             "TestEarly/KeeperLost",
		"early head and driver":                  "TestEarly/Elastic",
		"prepare fails":                          "TestEarly/PrepareFails",
		"prepare is interrupted":                 "TestEarly/Evicted",
		"keeper killed while preparing":          "TestEarly/KeeperLost",
		"keeper killed":                          "TestKeeperKilledAgain",
		"keeper killed before the gang is there": "TestKeeperLostAround",
		"keeper killed while its cluster ends":   "TestKeeperLostAround",
		"interrupt with a checkpoint":            "TestKeeperLostAround, TestAPIServerRestarted",
		"clients killed after the commit":        "TestNobodyWatched",
	}
	conformance.Run(t, c)
}
