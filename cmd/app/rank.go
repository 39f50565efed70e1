package app

import (
	"io"

	"github.com/rayctl/rayctl/launcher/driverio"
)

// AllRanks is the value of --rank that shows the whole output.
const AllRanks = -1

// CheckRank refuses a --rank that means nothing. possible: the command has the output of ranks as a whole.
func CheckRank(rank int, possible bool) error {
	switch {
	case rank < AllRanks:
		return UsageError("ranks are numbered from 0", "--rank: there is no rank %d", rank)
	case rank != AllRanks && !possible:
		return UsageError("it needs --each-node or job.launch, and shows the whole output of one rank: leave out --tail and --node", "--rank selects nothing here")
	}
	return nil
}

// OfRanks is where output goes of which only one rank's is shown, or in which the numbers of all ranks have colours. prepares: the output begins with that of job.prepare.
func OfRanks(w io.Writer, rank int, prepares, colors bool) io.Writer {
	switch {
	case rank != AllRanks:
		return driverio.NewRankOutput(w, rank, prepares)
	case colors:
		return driverio.NewRankColors(w)
	}
	return w
}
