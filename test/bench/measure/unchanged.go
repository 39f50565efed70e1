package measure

import (
	"context"
	"fmt"
)

// StartAndEnd has the seconds of runs from the command, or the allocation, to the driver's first line, and from its last one to nothing left.
type StartAndEnd struct{ First, End []float64 }

// Add adds one run.
func (s *StartAndEnd) Add(first, end float64) {
	s.First, s.End = append(s.First, first), append(s.End, end)
}

// CompareWithEarlier runs the same clusters with an earlier rayctl (-base) and with this one, alternately. Neither start nor end may have become
// worse by more than a tenth.
func (b *Bench) CompareWithEarlier(ctx context.Context, what string, run func(context.Context) (first, end float64, err error)) ([]Row, error) {
	var earlier, ours StartAndEnd
	side := func(into *StartAndEnd, program string) func(context.Context) error {
		return func(ctx context.Context) error {
			defer func(now string) { b.Rayctl = now }(b.Rayctl)
			b.Rayctl = program
			first, end, err := run(ctx)
			into.Add(first, end)
			return err
		}
	}
	if err := b.Repeat(ctx, what+", an earlier rayctl and this one", side(&earlier, b.Base), side(&ours, b.Rayctl)); err != nil {
		return nil, err
	}
	const goal = "at most 1.10 of it"
	return []Row{
		Compare(fmt.Sprintf("%s: start to driver's first line (an earlier rayctl)", what), Seconds, earlier.First, ours.First, 1.1*Median(earlier.First), goal),
		Compare(fmt.Sprintf("%s: driver's last line to nothing left (an earlier rayctl)", what), Seconds, earlier.End, ours.End, 1.1*Median(earlier.End), goal),
	}, nil
}

// measureUnchanged does so on this machine.
func measureUnchanged(ctx context.Context, b *Bench) ([]Row, error) {
	b.Head.Stop()
	return b.CompareWithEarlier(ctx, "local, 1 node", b.rayctlRun)
}
