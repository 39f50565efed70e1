package driverio

import "io"

// RankOutput passes on the bytes of one rank.
type RankOutput struct {
	w     io.Writer
	rank  int
	wrote bool
	lines rankLines
}

// Wrote reports whether there was anything of the rank.
func (o *RankOutput) Wrote() bool { return o.wrote }

// NewRankOutput writes to w. prepares: the job has a job.prepare, whose output comes first.
func NewRankOutput(w io.Writer, rank int, prepares bool) *RankOutput {
	return &RankOutput{w: w, rank: rank, lines: rankLines{rank: noRank, waitsForDriver: prepares}}
}

func (o *RankOutput) Write(p []byte) (int, error) {
	var out []byte
	o.lines.read(p, func(rank int, data []byte) {
		if rank == o.rank {
			out = append(out, data...)
		}
	})
	if len(out) == 0 {
		return len(p), nil
	}
	o.wrote = true
	if _, err := o.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
