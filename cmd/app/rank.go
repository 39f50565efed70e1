package app

import (
	"errors"
	"io"
	"strconv"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/spec"
)

// AllRanks is the value of --rank that shows the whole output.
const AllRanks = -1

// CheckRank refuses a --rank (AllRanks: not given) or --rank-files (empty: not given) that has no meaning. possible is false if the caller knows that the job has
// no ranks, or that it does not read the whole output.
func CheckRank(rank int, files string, possible bool) error {
	switch {
	case rank < AllRanks:
		return UsageError("ranks are numbered from 0", "--rank: there is no rank %d", rank)
	case rank != AllRanks && files != "":
		return UsageError("leave out one of them", "--rank shows one rank, and --rank-files writes the files of all")
	case (rank != AllRanks || files != "") && !possible:
		return UsageError("", "--rank and --rank-files need a job with --each-node or job.launch, and cannot be combined with --tail or --node")
	}
	return nil
}

// NoteNoRank says that the output, which has been shown to w of OfRanks, had nothing of the rank: there may be no such rank.
func (a *App) NoteNoRank(w io.Writer, rank int) {
	if o, ok := w.(*driverio.RankOutput); ok && !o.Wrote() {
		a.UI.Note("Rank %d has written nothing, or there is no such rank: `rayctl logs` without --rank shows all", rank)
	}
}

// CheckRanks refuses ranks that the nodes cannot have, in the words of the command line where that has them.
func CheckRanks(c *config.Loaded, l launcher.Launcher) error {
	if !c.Spec.Job.Launch.On() {
		return nil
	}
	_, err := l.Render(c.Spec)
	var lacks *orders.RanksError
	if !errors.As(err, &lacks) || c.Origins["job.launch.perNode"].Source != "--each-node" {
		return err
	}
	hint := "choose a number that divides them"
	if lacks.Key != "" {
		hint = "give " + moreOf(c.Spec, lacks) + ", or a smaller number"
	}
	return UsageError(hint, "--each-node=%s: %s", c.Spec.Job.Launch.PerNode, lacks.Text)
}

// moreOf is the flag by which nodes get what they lack.
func moreOf(s *spec.ClusterSpec, lacks *orders.RanksError) string {
	amount := "N"
	if lacks.Needed > 0 {
		amount = strconv.Itoa(lacks.Needed)
	}
	switch {
	case lacks.Group.Name == spec.HeadGroupName:
		return "--set head." + lacks.Key + "=" + amount
	case len(s.Workers) > 1:
		amount = lacks.Group.Name + "=" + amount
	}
	return "--" + lacks.Key + "-per-worker " + amount
}

// OfRanks returns a writer to which a job's whole output can be written. It passes on to w only the given rank's output, or with AllRanks everything, where colors
// gives the ranks' numbers colours. prepares: the output begins with that of job.prepare.
func OfRanks(w io.Writer, rank int, prepares, colors bool) io.Writer {
	switch {
	case rank != AllRanks:
		return driverio.NewRankOutput(w, rank, prepares)
	case colors:
		return driverio.NewRankColors(w)
	}
	return w
}
