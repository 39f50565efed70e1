package main

import (
	"context"
	"fmt"
)

// startAndEnd has the seconds of runs from the command, or the allocation, to the driver's first line, and from its last one to nothing left.
type startAndEnd struct{ first, end []float64 }

func (s *startAndEnd) add(first, end float64) {
	s.first, s.end = append(s.first, first), append(s.end, end)
}

// compareWithEarlier runs the same clusters with an earlier rayctl (-base) and with this one, alternately. Neither start nor end may have become
// worse by more than a tenth.
func (b *bench) compareWithEarlier(ctx context.Context, what string, run func(context.Context) (first, end float64, err error)) ([]row, error) {
	var earlier, ours startAndEnd
	side := func(into *startAndEnd, program string) func(context.Context) error {
		return func(ctx context.Context) error {
			defer func(now string) { b.rayctl = now }(b.rayctl)
			b.rayctl = program
			first, end, err := run(ctx)
			into.add(first, end)
			return err
		}
	}
	if err := b.repeat(ctx, what+", an earlier rayctl and this one", side(&earlier, b.base), side(&ours, b.rayctl)); err != nil {
		return nil, err
	}
	const goal = "at most 1.10 of it"
	return []row{
		compare(fmt.Sprintf("%s: start to driver's first line (an earlier rayctl)", what), seconds, earlier.first, ours.first, 1.1*median(earlier.first), goal),
		compare(fmt.Sprintf("%s: driver's last line to nothing left (an earlier rayctl)", what), seconds, earlier.end, ours.end, 1.1*median(earlier.end), goal),
	}, nil
}

// measureUnchanged does so on this machine.
func measureUnchanged(ctx context.Context, b *bench) ([]row, error) {
	b.head.stop()
	return b.compareWithEarlier(ctx, "local, 1 node", b.rayctlRun)
}
