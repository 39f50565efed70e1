//go:build linux

package chaos

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rayctl/rayctl/test/once"
)

var (
	number      = flag.Int("chaos.n", 0, "so many random cases")
	seed        = flag.Uint64("chaos.seed", 1, "from which all cases follow")
	begin       = flag.Int("chaos.first", 0, "number of the first case")
	elastic     = flag.Bool("chaos.elastic", false, "elastic clusters, and faults of their nodes, too")
	withEarly   = flag.Bool("chaos.early", false, "clusters with an early head, and faults of their gangs, too; with -chaos.elastic each case is one of the two")
	withDaemons = flag.Bool("chaos.daemons", false, "daemons that hang, that have no descriptors left, truncated logs, stolen ports, too")
	kinds       = flag.String("chaos.faults", "", "a regular expression for the names of faults to choose from; other choices make other cases of the same seed")
	only        = flag.String("chaos.launchers", "local,slurm,kuberay", "launchers to choose from; other choices make other cases of the same seed")
)

// TestCampaign runs random cases; none without -chaos.n, as in `make test`. The launchers run in parallel, each one case at a time.
func TestCampaign(t *testing.T) {
	c := chosen(t)
	var cases []drawn
	for i := range *number {
		cases = append(cases, draw(*seed, *begin+i, c))
	}
	violations, struck, compared := runAll(t, cases)
	t.Logf("chaos: %d cases, %d of whose faults found their target, %d violations; in %d `status` and `ls` were compared after the strike; faults: %s", len(cases), struck, violations, compared, tally(cases))
	if len(cases) >= 10 && struck*10 < len(cases)*8 { // among fewer, one that comes too late would count too much
		t.Errorf("only %d of %d faults found their target: this campaign shows too little", struck, len(cases))
	}
	if len(cases) >= 10 && compared*10 < len(cases)*7 {
		t.Errorf("only in %d of %d cases `status` and `ls` could be compared after the strike: this campaign shows too little", compared, len(cases))
	}
}

// chosen is what the flags select.
func chosen(t *testing.T) choice {
	t.Helper()
	wanted, err := regexp.Compile(*kinds)
	if err != nil {
		t.Fatalf("-chaos.faults: %v", err)
	}
	c := choice{launchers: strings.Split(*only, ","), flags: " -chaos.launchers " + *only, faults: func(launcher, kind string) map[string]fault {
		all := faultsOf(unstarted(launcher), kind)
		maps.DeleteFunc(all, func(name string, _ fault) bool { return !wanted.MatchString(name) })
		return all
	}}
	if *kinds != "" {
		c.flags += fmt.Sprintf(" -chaos.faults %q", *kinds)
	}
	for kind, yes := range map[string]bool{elasticity: *elastic, early: *withEarly, daemons: *withDaemons} {
		if yes {
			c.kinds = append(c.kinds, kind)
			c.flags += " -chaos." + kind
		}
	}
	if slices.Sort(c.kinds); len(c.kinds) == 0 {
		c.kinds = []string{plain}
	}
	for _, l := range c.launchers {
		if worlds[l] == nil {
			t.Fatalf("-chaos.launchers: there is no launcher %q", l)
		}
		for _, kind := range c.kinds {
			if len(c.faults(l, kind)) == 0 {
				t.Fatalf("-chaos.faults: %s has no such fault (%s)", l, kind)
			}
		}
	}
	return c
}

// unstarted is a world that only knows its faults.
func unstarted(launcher string) world {
	switch launcher {
	case "local":
		return &localWorld{}
	case "slurm":
		return &slurmWorld{}
	}
	return &kubeWorld{}
}

// faultsOf are the faults of a kind of clusters.
func faultsOf(w world, kind string) map[string]fault {
	var own map[string]fault
	switch kind {
	case elasticity:
		own = w.elasticFaults()
	case early:
		own = w.earlyFaults()
	case daemons:
		own = w.daemonFaults()
	}
	for name, f := range own {
		f.own = true
		own[name] = f
	}
	return merge(w.faults(), own)
}

// runAll runs cases and returns the number of cases with violations, of those whose fault found its target, and of those whose statuses were compared then.
func runAll(t *testing.T, cases []drawn) (violations, struck, compared int) {
	if len(cases) == 0 {
		return 0, 0, 0
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
					hit, looked := false, false
					ok := t.Run(fmt.Sprintf("%d-%s", d.number, strings.ReplaceAll(d.fault, " ", "-")), func(t *testing.T) { hit, looked = runCase(t, w, d) })
					mu.Lock()
					if !ok {
						violations++
					}
					if hit {
						struck++
					}
					if looked {
						compared++
					}
					mu.Unlock()
				}
				w.end(t)
			})
		}
	})
	return violations, struck, compared
}

func buildRayctl(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rayctl-chaos-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "rayctl")
	if err := once.Program(t.Context(), once.Rayctl, path); err != nil {
		t.Fatal(err)
	}
	return path
}
