package slurmbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/test/bench/measure"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// measureRanks starts 64 processes on four nodes by `rayctl run --each-node`, from Ready, beside one actor's own start on a cluster of the same size, and beside srun, from the
// start of its job: between those moments Ray starts, and srun has no more to start than the processes.
func measureRanks(ctx context.Context, b *measure.Bench) (rows []measure.Row, err error) {
	s, err := newSite(ctx, b, slurmtest.Options{Nodes: measure.RankNodes})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	actor := s.Dir + "/shared/actor.py"
	text, err := measure.Drivers.ReadFile("drivers/actor.py")
	if err == nil {
		err = os.WriteFile(actor, text, 0o644)
	}
	if err != nil {
		return nil, err
	}
	var srun, one, ranks []float64
	side := func(to *[]float64, measured func() (float64, error)) func(context.Context) error {
		return func(context.Context) error {
			took, err := measured()
			*to = append(*to, took)
			return err
		}
	}
	each := strconv.Itoa(measure.Ranks / measure.RankNodes)
	err = b.Repeat(ctx, "slurm, ranks",
		side(&srun, func() (float64, error) { return s.srunRanks(ctx) }),
		side(&one, func() (float64, error) { return s.fromReady(ctx, 1, "--", b.Python, actor) }),
		side(&ranks, func() (float64, error) {
			return s.fromReady(ctx, measure.Ranks, "--each-node="+each, "--", "sh", "-c", measure.Rank)
		}))
	if err != nil {
		return nil, err
	}
	what, most := fmt.Sprintf("Ready to the last of %d ranks on %d nodes", measure.Ranks, measure.RankNodes), measure.Median(one)+3
	return []measure.Row{
		measure.Compare(what+" (one actor)", measure.Seconds, one, ranks, most, "at most 3 s more: "+measure.Seconds(most)),
		{What: what + " (`srun`, from the start of its job)", Today: measure.Figures(srun, measure.Seconds), Rayctl: measure.Figures(ranks, measure.Seconds)},
	}, nil
}

// srunRanks is the seconds from the start of srun's job to the last process.
func (s *slurmSite) srunRanks(ctx context.Context) (float64, error) {
	cmd := s.Command(ctx, "", "srun", "--nodes="+strconv.Itoa(measure.RankNodes), "--ntasks="+strconv.Itoa(measure.Ranks), "--label", "sh", "-c", "echo job $SLURM_JOB_ID; "+measure.Rank)
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("srun: %w", err)
	}
	_, job, _ := strings.Cut(string(out), "job ")
	job, _, _ = strings.Cut(job, "\n")
	begun, err := s.granted(job)
	if err != nil {
		return 0, err
	}
	last, err := measure.LastUp(out, measure.Ranks)
	return last.Sub(begun).Seconds(), err
}

// fromReady is the seconds from Ready to the last of so many processes, which `rayctl run` starts.
func (s *slurmSite) fromReady(ctx context.Context, processes int, command ...string) (float64, error) {
	receipt := s.Dir + "/shared/receipt.json"
	cmd := s.Command(ctx, "", s.b.Rayctl, append([]string{"run", "--launcher", "slurm", "--workers", strconv.Itoa(measure.RankNodes),
		"--cpus-per-worker", strconv.Itoa(measure.Ranks / measure.RankNodes), "--receipt", receipt, "--set", "ray.python=" + s.b.Python}, command...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("rayctl run: %w: %s", err, &said)
	}
	return measure.FromReady(receipt, out, processes)
}
