// Package conformance is the one suite that every launcher passes, on the real substrate with real Ray.
//
// A launcher's own test file provides a constructor, a small spec, functions that inject faults, and a query for what the
// substrate has allocated. Everything else is the same for all launchers:
//
//	func TestMain(m *testing.M) { conformance.Main(m, newLauncher) }
//	func TestConformance(t *testing.T) { conformance.Run(t, conformance.Config{...}) }
package conformance

import (
	"fmt"
	"maps"
	"os"
	"slices"
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
	// TwoGroups returns a spec with two different groups of one node each: "a" with the head, and "b" with the Ray resource "b".
	TwoGroups func() *spec.ClusterSpec
	// GPUNodes returns a spec of two nodes with two GPUs each, behind which no devices need be. The head is on one of them.
	GPUNodes func() *spec.ClusterSpec
	// Alone returns Spec on a node where its processes see no other cluster's. nil: there is none.
	Alone func() *spec.ClusterSpec
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
	// OneToken is true if all heads of a cluster have the same token, because the substrate starts them. Otherwise each start has another one.
	OneToken bool
	// KeeperLog is true if the keeper's log is a file that can be read while the cluster lives. A keeper in a pod prints its log when it ends.
	KeeperLog bool
	// KillHead kills Ray's head (its GCS) with SIGKILL.
	KillHead func(t *testing.T, id launcher.ID)
	// FreezeDashboard stops the process of the head's dashboard (SIGSTOP) until thaw. nil: not yet supported by the launcher's tests.
	FreezeDashboard func(t *testing.T, id launcher.ID) (thaw func())
	// NameServiceAway disables the name service that the cluster's parts use to find each other, until back. nil: they use addresses only.
	NameServiceAway func(t *testing.T) (back func())
	// PacksFirst is true if the launcher makes the packages before it allocates anything: a client that packs leaves nothing then, whatever ends it.
	PacksFirst bool
	// Occupy takes the substrate's whole capacity until release, so that the next cluster queues. nil: the substrate has no queue.
	Occupy func(t *testing.T) (release func())
	// HoldWorkers keeps the workers of a cluster with an early head from starting until release, which may be called twice. It may change the spec. nil: the
	// launcher has no early heads.
	HoldWorkers func(t *testing.T, s *spec.ClusterSpec) (release func())
	// Surfaces returns, by name, everything that the substrate shows or stores about a cluster: manifests, files, logs, argv of its
	// processes. Only files that exist to hold secrets are omitted.
	Surfaces func(t *testing.T, id launcher.ID) map[string][]byte
	// Story returns diagnostics of a cluster whose scenario failed, such as the keeper's log.
	Story func(t *testing.T, id launcher.ID) string
	// Only, unless nil, names the scenarios to run, for a launcher that shares with another one all but its substrate: those that the substrate can break.
	Only []string
	// Without names the scenarios that the substrate has no feature for (its function above is nil), and why. Each such scenario is here or in Elsewhere.
	Without map[string]string
	// Plain names scenarios that run with ray.fastStart: false, for a launcher that shares the start of its nodes with another one, on which they run with
	// fast start. RAYCTL_TEST_PLAIN_START runs all in this way.
	Plain []string
	// Elsewhere are scenarios that another test checks: in more detail, or on a launcher that has all in common with this one that the scenario is about, as the
	// keeper and Ray. Name to test. RAYCTL_TEST_WHOLE runs them here, too.
	Elsewhere map[string]string
	// Patience bounds each wait. Default 3 minutes.
	Patience time.Duration
}

// scenario checks promises of one cluster that lives in one way.
type scenario struct {
	name string
	part part
	run  func(*testing.T, *suite)
}

// part is a part of the suite that a scenario is of. Each has the ones after it.
type part int

const (
	whole    part = iota
	check         // of `make check`
	versions      // of Quick
)

func scenarios() []scenario {
	return []scenario{ // long waits first, so that the others run beside them
		{"dashboard frozen for a minute", whole, dashboardFrozen},
		{"name service away for a minute", whole, nameServiceAway},
		{"warned of the end", whole, warned},
		{"exit code 0, output byte for byte, and what is left", versions, exitZero},
		{"drivers that fail, and restarts", check, driverRestarts},
		{"driver that fails because its node is lost", whole, failsWithItsNode},
		{"runtime environment that fails", whole, noRuntimeEnv},
		{"one name, many launches, unlike groups", check, oneName},
		{"two clusters side by side", whole, sideBySide},
		{"driver that ends Ray", whole, endsRay},
		{"elastic group", versions, elasticGroup},
		{"one process on every node", check, ranks},
		{"early head", whole, earlyHead},
		{"early head and driver", whole, earlyDriver},
		{"interrupt with a checkpoint", check, interrupt},
		{"interrupt twice", whole, interruptTwice},
		{"client killed before the commit", check, killedBeforeCommit},
		{"clients killed after the commit", check, clientsKilled},
		{"detach, then logs, status and result", whole, detach},
		{"keeper killed", versions, keeperKilled},
		{"keeper killed before the gang is there", whole, keeperKilledEarly},
		{"keeper killed while its cluster ends", whole, keeperKilledEnding},
		{"head killed", check, headKilled},
		{"queue limit", whole, queueLimit},
		{"idle", whole, idle},
		{"end on disconnect", whole, endOnDisconnect},
		{"another spec, secrets, terminate", versions, seen},
		{"setup fails", whole, setupFails},
		{"prepare, then the driver", check, prepares},
		{"prepare fails", whole, prepareFails},
		{"prepare is interrupted", whole, prepareInterrupted},
		{"prepare hangs", check, prepareHangs},
		{"keeper killed while preparing", whole, prepareKeeperKilled},
		{"unknown cluster", versions, unknownCluster},
	}
}

// Run checks every promise. With RAYCTL_TEST_QUICK in the environment it checks only those of `make check`. With RAYCTL_TEST_WHOLE it leaves out nothing
// that Config names in Only or Elsewhere. With RAYCTL_TEST_PLAIN_START all scenarios run with ray.fastStart: false.
func Run(t *testing.T, c Config) {
	of := whole
	if os.Getenv("RAYCTL_TEST_QUICK") != "" {
		of = check
	}
	run(t, c, of)
}

// Quick checks the promises that a version of a substrate can break. The others are kept by keeper, Ray and client alone.
func Quick(t *testing.T, c Config) { run(t, c, versions) }

func run(t *testing.T, c Config, of part) {
	s := newSuite(t, c)
	for _, mistake := range c.mistakes() {
		t.Error(mistake)
	}
	if Whole() {
		s.Only, s.Elsewhere = nil, nil
	}
	for _, sc := range scenarios() {
		if sc.part < of || !s.has(sc.name) {
			continue
		}
		of := *s
		of.plain = s.plain || slices.Contains(s.Plain, sc.name)
		t.Run(sc.name, func(t *testing.T) {
			pace.Parallel(t)
			sc.run(t, &of)
		})
	}
}

// Whole reports whether this is `make conformance` (RAYCTL_TEST_WHOLE), which runs what `make test` leaves out because another test shows the same.
func Whole() bool { return os.Getenv("RAYCTL_TEST_WHOLE") != "" }

// mistakes are names that no scenario has, and differences between Without and the features that the substrate has.
func (c *Config) mistakes() (found []string) {
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(c.Elsewhere)), slices.Sorted(maps.Keys(c.Without)), c.Only, c.Plain) {
		if !slices.ContainsFunc(scenarios(), func(sc scenario) bool { return sc.name == name }) {
			found = append(found, fmt.Sprintf("there is no scenario %q", name))
		}
	}
	for _, sc := range scenarios() {
		_, without := c.Without[sc.name]
		_, elsewhere := c.Elsewhere[sc.name]
		switch able := c.able(sc.name); {
		case able && without:
			found = append(found, fmt.Sprintf("Without names %q, which the substrate has the feature for", sc.name))
		case !able && !without && !elsewhere:
			found = append(found, fmt.Sprintf("%q does not run, and neither Without nor Elsewhere says why", sc.name))
		}
	}
	return found
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

// has reports whether a scenario is to run: the substrate has the feature that it needs, and no other test checks it.
func (s *suite) has(name string) bool {
	if _, elsewhere := s.Elsewhere[name]; elsewhere || s.Only != nil && !slices.Contains(s.Only, name) {
		return false
	}
	return s.able(name)
}

// able reports whether the substrate has the feature that a scenario needs.
func (c *Config) able(name string) bool {
	switch name {
	case "queue limit":
		return c.Occupy != nil
	case "client killed before the commit":
		return !c.PacksFirst
	case "dashboard frozen for a minute":
		return c.FreezeDashboard != nil
	case "name service away for a minute":
		return c.NameServiceAway != nil
	case "early head", "early head and driver":
		return c.HoldWorkers != nil
	case "driver that ends Ray":
		return c.Alone != nil
	case "elastic group":
		return c.Elastic
	default:
		return true
	}
}
