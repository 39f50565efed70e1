package app

import (
	"io"

	"github.com/rayctl/rayctl/launcher/driverio"
)

// AllRanks is the value of --rank that shows the whole output.
const AllRanks = -1

// CheckRank refuses flags about ranks that mean nothing. possible: the command has the output of ranks as a whole.
func CheckRank(rank int, files string, possible bool) error {
	switch {
	case rank < AllRanks:
		return UsageError("ranks are numbered from 0", "--rank: there is no rank %d", rank)
	case rank != AllRanks && files != "":
		return UsageError("leave out one of them", "--rank shows one rank, and --rank-files writes the files of all")
	case (rank != AllRanks || files != "") && !possible:
		return UsageError("they need --each-node or job.launch, and the whole output: leave out --tail and --node", "--rank and --rank-files select nothing here")
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
