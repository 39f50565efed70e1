//go:build linux

package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// moment is when a fault happens.
type moment struct {
	line  int           // after the driver has printed this line; 0: counted from the start of the client, or with fault.closed since the gang waits
	after time.Duration // delay after that
}

func (m moment) String() string {
	if m.line == 0 {
		return fmt.Sprintf("%s after the beginning", m.after.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s after line %d", m.after.Round(time.Millisecond), m.line)
}

// Kinds of clusters.
const (
	plain      = "plain"
	elasticity = "elastic" // nodes come and go
	daemons    = "daemons" // as plain, with faults of the daemons around it
	early      = "early"   // the head comes before the workers' gang
)

// drawn is one random case, determined by the seed and the number.
type drawn struct {
	seed     uint64
	number   int
	launcher string
	kind     string
	fault    string
	moment   moment
	lines    int           // of output
	pause    time.Duration // after each line
	code     int           // the driver's own exit code
	workers  int           // required nodes beside the head's group
	restarts int           // job.restarts.nodeFailure
	bursts   int           // of tasks, for which nodes come and after which they go; 0: the cluster is not elastic
	start    string        // job.start of an early cluster
	flags    string        // that make the same case again
}

func (d drawn) String() string {
	return fmt.Sprintf("%s: %s: %s %s (%d lines, one each %s, exit code %d, %d workers, nodeFailure %d, %d bursts%s); again: -chaos.seed %d -chaos.first %d -chaos.n 1%s",
		d.launcher, d.kind, d.fault, d.moment, d.lines, d.pause, d.code, d.workers, d.restarts, d.bursts, strings.TrimSuffix(", start: "+d.start, ", start: "), d.seed, d.number, d.flags)
}

// run is the name of the case's cluster.
func (d drawn) run() string { return fmt.Sprintf("x%d-%d", d.seed, d.number) }

// most is maxReplicas of the driver's group.
func (d drawn) most() int { return max(2, d.workers) }

// choice is what a campaign chooses from.
type choice struct {
	launchers, kinds []string
	faults           func(launcher, kind string) map[string]fault
	flags            string
}

// draw makes a case.
func draw(seed uint64, number int, c choice) drawn {
	random := rand.New(rand.NewPCG(seed, uint64(number))) //nolint:gosec // it has to be repeatable, not secret
	d := drawn{seed: seed, number: number, launcher: c.launchers[random.IntN(len(c.launchers))], kind: c.kinds[0], flags: c.flags}
	if len(c.kinds) > 1 { // plain campaigns draw as they did before there were other kinds, see kept
		d.kind = c.kinds[random.IntN(len(c.kinds))]
	}
	faults := c.faults(d.launcher, d.kind)
	names := weighed(faults)
	d.fault = names[random.IntN(len(names))]
	d.lines = 20 + random.IntN(80)
	d.pause = time.Duration(20+random.IntN(150)) * time.Millisecond
	d.code = []int{0, 0, 3}[random.IntN(3)]
	d.workers = random.IntN(2)
	d.restarts = random.IntN(2)
	switch random.IntN(4) {
	case 0:
		d.moment.after = time.Duration(random.IntN(9000)) * time.Millisecond
	case 1:
		d.moment = moment{line: d.lines, after: time.Duration(random.IntN(1500)) * time.Millisecond}
	default:
		d.moment = moment{line: 1 + random.IntN(d.lines), after: time.Duration(random.IntN(300)) * time.Millisecond}
	}
	switch d.kind {
	case elasticity:
		d.bursts = 1 + random.IntN(2)
		d.pause *= 3 // nodes need seconds to come and go
	case early:
		d.workers++
		d.bursts = random.IntN(2)
		d.start = []string{"gang", "head"}[random.IntN(2)]
	}
	switch f := faults[d.fault]; {
	case f.closed:
		d.moment = moment{after: time.Duration(random.IntN(4000)) * time.Millisecond}
	case f.own && d.moment.line > 1: // its target lives no longer than the driver
		d.moment.line /= 2
	}
	return d
}

// weighed are the names of faults; those that only a kind of clusters has count three times there, because its campaign is about them.
func weighed(faults map[string]fault) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		names = append(names, name)
		if faults[name].own {
			names = append(names, name, name)
		}
	}
	return names
}

// tally counts faults by kind, for a campaign's summary.
func tally(cases []drawn) string {
	counts := map[string]int{}
	for _, d := range cases {
		counts[d.launcher+" "+d.kind+": "+d.fault]++
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
