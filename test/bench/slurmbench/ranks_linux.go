package slurmbench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/test/bench/measure"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// measureRanks starts 64 processes on four nodes: by srun from the job's start, and by `rayctl run --each-node` from Ready. Between those moments Ray starts.
func measureRanks(ctx context.Context, b *measure.Bench) (rows []measure.Row, err error) {
	s, err := newSite(ctx, b, slurmtest.Options{Nodes: measure.RankNodes})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var srun, ranks []float64
	err = b.Repeat(ctx, "slurm, ranks", func(ctx context.Context) error {
		took, err := s.srunRanks(ctx)
		srun = append(srun, took)
		return err
	}, func(ctx context.Context) error {
		took, err := s.rayctlRanks(ctx)
		ranks = append(ranks, took)
		return err
	})
	if err != nil {
		return nil, err
	}
	most := measure.Median(srun) + 3
	return []measure.Row{measure.Compare(fmt.Sprintf("Ready to the last of %d ranks on %d nodes (`srun`, from the start of its job)", measure.Ranks, measure.RankNodes), measure.Seconds,
		srun, ranks, most, "at most 3 s more: "+measure.Seconds(most))}, nil
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

// rayctlRanks is the seconds from Ready to the last rank.
func (s *slurmSite) rayctlRanks(ctx context.Context) (float64, error) {
	receipt, each := s.Dir+"/shared/receipt.json", strconv.Itoa(measure.Ranks/measure.RankNodes)
	cmd := s.Command(ctx, "", s.b.Rayctl, "run", "--launcher", "slurm", "--workers", strconv.Itoa(measure.RankNodes), "--cpus-per-worker", each, "--receipt", receipt,
		"--set", "ray.python="+s.b.Python, "--each-node="+each, "--", "sh", "-c", measure.Rank)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("rayctl run: %w: %s", err, &said)
	}
	return measure.FromReady(receipt, out, measure.Ranks)
}
