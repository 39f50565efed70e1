//go:build linux

package chaos

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

var (
	number  = flag.Int("chaos.n", 0, "so many random cases")
	seed    = flag.Uint64("chaos.seed", 1, "from which all cases follow")
	begin   = flag.Int("chaos.first", 0, "number of the first case")
	elastic = flag.Bool("chaos.elastic", false, "elastic clusters, and faults of their nodes, too")
	kinds   = flag.String("chaos.faults", "", "a regular expression for the names of faults to choose from; other choices make other cases of the same seed")
	only    = flag.String("chaos.launchers", "local,slurm,kuberay", "launchers to choose from; other choices make other cases of the same seed")
)

// TestCampaign runs random cases; none without -chaos.n, as in `make test`. The launchers run in parallel, each one case at a time.
func TestCampaign(t *testing.T) {
	launchers, faults := chosen(t)
	var cases []drawn
	for i := range *number {
		cases = append(cases, draw(*seed, *begin+i, launchers, faults, *elastic))
	}
	violations, struck := runAll(t, cases)
	t.Logf("chaos: %d cases, %d of whose faults found their target, %d violations; faults: %s", len(cases), struck, violations, tally(cases))
}

// chosen are the selected launchers, with the names of each one's faults.
func chosen(t *testing.T) (launchers []string, faults map[string][]string) {
	t.Helper()
	launchers, faults = strings.Split(*only, ","), map[string][]string{}
	wanted, err := regexp.Compile(*kinds)
	if err != nil {
		t.Fatalf("-chaos.faults: %v", err)
	}
	for _, l := range launchers {
		if worlds[l] == nil {
			t.Fatalf("-chaos.launchers: there is no launcher %q", l)
		}
		faults[l] = slices.DeleteFunc(faultNames(l), func(name string) bool { return !wanted.MatchString(name) })
		if len(faults[l]) == 0 {
			t.Fatalf("-chaos.faults: %s has no such fault", l)
		}
	}
	return launchers, faults
}

// faultNames are the names of a launcher's faults; nothing is started.
func faultNames(launcher string) []string {
	var w world
	switch launcher {
	case "local":
		w = &localWorld{}
	case "slurm":
		w = &slurmWorld{}
	default:
		w = &kubeWorld{}
	}
	all := w.faults()
	if *elastic {
		maps.Copy(all, w.elasticFaults())
	}
	return slices.Sorted(maps.Keys(all))
}

// runAll runs cases and returns the number of cases with violations, and of those whose fault found its target.
func runAll(t *testing.T, cases []drawn) (violations, struck int) {
	if len(cases) == 0 {
		return 0, 0
	}
	rayctl := buildRayctl(t)
	by := map[string][]drawn{}
	for _, d := range cases {
		by[d.launcher] = append(by[d.launcher], d)
	}
	var mu sync.Mutex
	t.Run("cases", func(t *testing.T) {
		for launcher, mine := range by {
			t.Run(launcher, func(t *testing.T) {
				t.Parallel()
				w := worlds[launcher](t, rayctl)
				for _, d := range mine {
					hit := false
					ok := t.Run(fmt.Sprintf("%d-%s", d.number, strings.ReplaceAll(d.fault, " ", "-")), func(t *testing.T) { hit = runCase(t, w, d) })
					mu.Lock()
					if !ok {
						violations++
					}
					if hit {
						struck++
					}
					mu.Unlock()
				}
				w.end(t)
			})
		}
	})
	return violations, struck
}

func buildRayctl(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rayctl-chaos-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "rayctl")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/rayctl/rayctl/cmd/rayctl").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}
