package driverio

import "io"

// RankOutput passes on the bytes of one rank.
type RankOutput struct {
	w     io.Writer
	rank  int
	lines rankLines
}

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
	if _, err := o.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
