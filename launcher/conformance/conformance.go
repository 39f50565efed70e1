// Package conformance is the one suite that every launcher passes, on the real substrate with real Ray.
//
// A launcher's own test file provides a constructor, a small spec, functions that inject faults, and a query for what the
// substrate has allocated. Everything else is the same for all launchers:
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
	"github.com/rayctl/rayctl/test/pace"
)

// Config describes one launcher to the suite.
type Config struct {
	// Setting is passed to the factory given to Main, here and in the client processes that the suite starts and kills.
	Setting string
	// Spec returns the smallest spec: one node that runs tasks, `python` with Ray in the driver's PATH.
	Spec func() *spec.ClusterSpec
	// TwoGroups returns a spec with two different groups of one node each: "a" with the head, and "b" with the Ray resource "b". nil: no such spec.
	TwoGroups func() *spec.ClusterSpec
	// Elastic is true if the groups of TwoGroups may be elastic.
	Elastic bool
	// Allocated lists what the substrate itself reports as allocated to the cluster: processes, jobs, pods, sockets,
	// temporary files; empty means nothing. Finished records do not count.
	Allocated func(t *testing.T, id launcher.ID) []string
	// KillKeeper waits for the keeper and kills its process or pod with SIGKILL.
	KillKeeper func(t *testing.T, id launcher.ID)
	// KillKeeperProcess kills only the keeper's process, so that the files on its disk stay. nil: the suite uses KillKeeper.
	KillKeeperProcess func(t *testing.T, id launcher.ID)
	// Hold returns a setup that keeps Ray from starting on all nodes until release is called.
	Hold func(t *testing.T) (setup string, release func(*testing.T, launcher.ID))
	// KeeperReturns is true if the substrate restarts a killed keeper and the run continues. Otherwise the cluster is lost.
	KeeperReturns bool
	// KillHead kills Ray's head (its GCS) with SIGKILL.
	KillHead func(t *testing.T, id launcher.ID)
	// FreezeDashboard stops the process of the head's dashboard (SIGSTOP) until thaw. nil: not yet supported by the launcher's tests.
	FreezeDashboard func(t *testing.T, id launcher.ID) (thaw func())
	// NameServiceAway disables the name service that the cluster's parts use to find each other, until back. nil: they use addresses only.
	NameServiceAway func(t *testing.T) (back func())
	// Occupy takes the substrate's whole capacity until release, so that the next cluster queues. nil: the substrate has no queue.
	Occupy func(t *testing.T) (release func())
	// Surfaces returns, by name, everything that the substrate shows or stores about a cluster: manifests, files, logs, argv of its
	// processes. Only files that exist to hold secrets are omitted.
	Surfaces func(t *testing.T, id launcher.ID) map[string][]byte
	// Story returns diagnostics of a cluster whose scenario failed, such as the keeper's log.
	Story func(t *testing.T, id launcher.ID) string
	// Patience bounds each wait. Default 3 minutes.
	Patience time.Duration
}

// scenario checks one promise, on clusters of its own.
type scenario struct {
	name  string
	quick bool // also part of Quick
	run   func(*testing.T, *suite)
}

func scenarios() []scenario {
	return []scenario{ // long waits first, so that the others run beside them
		{"dashboard frozen for a minute", false, dashboardFrozen},
		{"name service away for a minute", false, nameServiceAway},
		{"warned of the end", false, warned},
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
		{"elastic group", true, elasticGroup},
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
		{"prepare, then the driver", true, prepares},
		{"prepare fails", false, prepareFails},
		{"prepare is interrupted", false, prepareInterrupted},
		{"prepare hangs", false, prepareHangs},
		{"keeper killed while preparing", false, prepareKeeperKilled},
		{"unknown cluster", true, unknownCluster},
	}
}

// Run checks every promise. With RAYCTL_TEST_QUICK in the environment it checks only those of Quick: for `make check`. With
// RAYCTL_TEST_PLAIN_START all scenarios run with ray.fastStart: false.
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
			pace.Parallel(t)
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

// has reports whether the substrate has the feature that a scenario needs.
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
	case "elastic group":
		return s.Elastic
	default:
		return true
	}
}
