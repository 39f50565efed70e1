// Package conformance is the one suite that every launcher passes, on the real substrate with real Ray.
//
// A launcher's own test file says how to make a launcher and a small spec, how to break things from outside, and how to ask
// the substrate what is allocated; everything else is the same for all:
//
//	func TestMain(m *testing.M) { conformance.Main(m, newLauncher) }
//	func TestConformance(t *testing.T) { conformance.Run(t, conformance.Config{...}) }
package conformance

import (
	"os"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Config is what the suite needs to know of one launcher.
type Config struct {
	// Setting is handed to the factory given to Main, here and in the client processes that the suite starts and kills.
	Setting string
	// Spec returns the smallest spec: one node that runs tasks, `python` with Ray in the driver's PATH.
	Spec func() *spec.ClusterSpec
	// TwoGroups returns a spec of two unlike groups of one node each, "a" (with the head) and "b", where b has the Ray resource "b". nil: none.
	TwoGroups func() *spec.ClusterSpec
	// Allocated lists what the substrate itself says is allocated to the cluster: processes, jobs, pods, sockets,
	// temporary files; empty means nothing. Finished records do not count.
	Allocated func(t *testing.T, id launcher.ID) []string
	// KillKeeper kills the keeper with SIGKILL (its process, its pod), once it is there.
	KillKeeper func(t *testing.T, id launcher.ID)
	// KillKeeperProcess kills less than KillKeeper: what the keeper has on its disk stays. nil: KillKeeper does.
	KillKeeperProcess func(t *testing.T, id launcher.ID)
	// Hold returns a setup with which no node of a cluster has Ray until release.
	Hold func(t *testing.T) (setup string, release func(*testing.T, launcher.ID))
	// KeeperReturns says that the substrate starts a killed keeper again and the run goes on; otherwise the cluster is lost.
	KeeperReturns bool
	// KillHead kills Ray's head (its GCS) with SIGKILL.
	KillHead func(t *testing.T, id launcher.ID)
	// FreezeDashboard stops the process of the head's dashboard (SIGSTOP) until thaw. nil: the launcher's tests cannot yet.
	FreezeDashboard func(t *testing.T, id launcher.ID) (thaw func())
	// NameServiceAway takes away the name service by which the cluster's parts find each other, until back. nil: they use addresses alone.
	NameServiceAway func(t *testing.T) (back func())
	// Occupy takes the substrate's whole capacity so that the next cluster queues, until release. nil: it has no queue.
	Occupy func(t *testing.T) (release func())
	// Surfaces returns everything that the substrate shows or stores about a cluster, by name: manifests, files, logs, argv of its
	// processes; only the files that exist to hold secrets left out.
	Surfaces func(t *testing.T, id launcher.ID) map[string][]byte
	// Story returns what to print of a cluster whose scenario failed: the keeper's log and the like.
	Story func(t *testing.T, id launcher.ID) string
	// Patience bounds each wait. Default 3 minutes.
	Patience time.Duration
}

// scenario is one promise, shown on clusters of its own.
type scenario struct {
	name  string
	quick bool // also part of Quick
	run   func(*testing.T, *suite)
}

func scenarios() []scenario {
	return []scenario{ // those that wait for long first: others run beside them
		{"dashboard frozen for a minute", false, dashboardFrozen},
		{"name service away for a minute", false, nameServiceAway},
		{"exit code 0 and what is left", true, exitZero},
		{"exit code 3", true, exitThree},
		{"driver ended by a signal", false, exitSignal},
		{"driver that does not exist", false, noSuchDriver},
		{"runtime environment that fails", false, noRuntimeEnv},
		{"output byte for byte", true, outputBytes},
		{"one name, many launches", true, oneName},
		{"another spec under the same name", false, conflict},
		{"two clusters side by side", false, sideBySide},
		{"unlike groups", true, unlikeGroups},
		{"interrupt with a checkpoint", true, interrupt},
		{"interrupt twice", false, interruptTwice},
		{"client killed before the commit", true, killedBeforeCommit},
		{"client killed while starting", true, killedWhileStarting},
		{"client killed while running", false, killedWhileRunning},
		{"client killed while ending", false, killedWhileEnding},
		{"detach, then logs, status and result", false, detach},
		{"keeper killed", true, keeperKilled},
		{"keeper killed before the gang is there", false, keeperKilledEarly},
		{"keeper killed while its cluster ends", false, keeperKilledEnding},
		{"head killed", true, headKilled},
		{"queue limit", false, queueLimit},
		{"max lifetime", true, maxLifetime},
		{"idle", false, idle},
		{"end on disconnect", false, endOnDisconnect},
		{"renewals keep it", false, renewals},
		{"driver restarts", false, driverRestarts},
		{"secrets", true, secrets},
		{"hostile names and values", true, hostile},
		{"terminate", false, terminate},
		{"setup fails", false, setupFails},
		{"unknown cluster", true, unknownCluster},
	}
}

// Run checks every promise, or with RAYCTL_TEST_QUICK in the environment those of Quick: for `make check`, and where a substrate is tested in a second
// form. With RAYCTL_TEST_PLAIN_START all of it runs with ray.fastStart: false.
func Run(t *testing.T, c Config) { run(t, c, os.Getenv("RAYCTL_TEST_QUICK") != "") }

// Quick checks the promises that differ most between versions of a substrate.
func Quick(t *testing.T, c Config) { run(t, c, true) }

func run(t *testing.T, c Config, quick bool) {
	s := newSuite(t, c)
	for _, sc := range scenarios() {
		if quick && !sc.quick || !s.has(sc.name) {
			continue
		}
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			sc.run(t, s)
		})
	}
}

func newSuite(t *testing.T, c Config) *suite {
	t.Helper()
	if c.Patience == 0 {
		c.Patience = 3 * time.Minute
	}
	if c.KillKeeperProcess == nil {
		c.KillKeeperProcess = c.KillKeeper
	}
	return &suite{Config: c, l: factory(c.Setting), payload: writePayload(t), plain: os.Getenv("RAYCTL_TEST_PLAIN_START") != ""}
}

// has leaves out what a substrate does not have at all.
func (s *suite) has(name string) bool {
	switch name {
	case "queue limit":
		return s.Occupy != nil
	case "dashboard frozen for a minute":
		return s.FreezeDashboard != nil
	case "name service away for a minute":
		return s.NameServiceAway != nil
	case "unlike groups":
		return s.TwoGroups != nil
	default:
		return true
	}
}
