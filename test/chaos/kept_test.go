//go:build linux

package chaos

import (
	"flag"
	"testing"
)

var again = flag.Bool("chaos.kept", false, "run the cases that violated something once, instead of random ones")

// kept are cases of campaigns on all launchers that once had a violation, each with the test of `make test` that always provokes the same. The cases
// do not: when a random fault strikes depends on the machine.
var kept = []struct {
	seed   uint64
	number int
	test   string
}{
	{7, 1, "of the campaign itself: an attempt that was ended before its driver began"},
	{7, 71, "kuberay: TestKeeperLostBeforeRecord"},
	{7, 79, "of the campaign itself: Ray's own start fails when its GCS is killed"},
	{7, 88, "of the campaign itself: down --now waits for no output"},
	{8, 29, "keeper: test_answers_that_are_lost, an agent that is away"},
	{8, 88, "keeper: test_answers_that_are_lost, an agent that is away"},
	{8, 89, "of the campaign itself: a head that is lost takes the last line along, and the record says so"},
	{8, 105, "of the campaign itself: down --now waits for no output"},
}

// TestKeptCases runs the kept cases with -chaos.kept.
func TestKeptCases(t *testing.T) {
	if !*again {
		return
	}
	c := chosen(t)
	c.kinds = []string{plain}
	var cases []drawn
	for _, k := range kept {
		cases = append(cases, draw(k.seed, k.number, c))
	}
	violations, _, _ := runAll(t, cases)
	t.Logf("chaos: %d kept cases, %d violations; faults: %s", len(cases), violations, tally(cases))
}
