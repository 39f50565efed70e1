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
	line  int           // after the driver has printed this line; 0: counted from the start of the client
	after time.Duration // delay after that
}

func (m moment) String() string {
	if m.line == 0 {
		return fmt.Sprintf("%s after the client's start", m.after.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s after line %d", m.after.Round(time.Millisecond), m.line)
}

// drawn is one random case, determined by the seed and the number.
type drawn struct {
	seed     uint64
	number   int
	launcher string
	fault    string
	moment   moment
	lines    int           // of output
	pause    time.Duration // after each line
	code     int           // the driver's own exit code
	workers  int           // nodes beside the head's group
	restarts int           // job.restarts.nodeFailure
	bursts   int           // of tasks, for which nodes come and after which they go; 0: the cluster is not elastic
}

func (d drawn) String() string {
	elastic := ""
	if d.bursts > 0 {
		elastic = " -chaos.elastic"
	}
	return fmt.Sprintf("%s: %s %s (%d lines, one each %s, exit code %d, %d workers, nodeFailure %d, %d bursts); again: -chaos.seed %d -chaos.first %d -chaos.n 1%s",
		d.launcher, d.fault, d.moment, d.lines, d.pause, d.code, d.workers, d.restarts, d.bursts, d.seed, d.number, elastic)
}

// run is the name of the case's cluster.
func (d drawn) run() string { return fmt.Sprintf("x%d-%d", d.seed, d.number) }

// draw makes a case. launchers are the candidates, faults the names of each one's faults.
func draw(seed uint64, number int, launchers []string, faults map[string][]string, elastic bool) drawn {
	random := rand.New(rand.NewPCG(seed, uint64(number))) //nolint:gosec // it has to be repeatable, not secret
	d := drawn{seed: seed, number: number, launcher: launchers[random.IntN(len(launchers))]}
	names := slices.Sorted(slices.Values(faults[d.launcher]))
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
	if elastic {
		d.bursts = 1 + random.IntN(3)
		d.pause *= 3 // nodes need seconds to come and go
	}
	return d
}

// tally counts faults by kind, for a campaign's summary.
func tally(cases []drawn) string {
	counts := map[string]int{}
	for _, d := range cases {
		counts[d.launcher+" "+d.fault]++
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
