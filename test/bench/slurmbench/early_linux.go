package slurmbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/test/bench/measure"
	"github.com/rayctl/rayctl/test/slurmtest"
)

const (
	earlyWorkers = 2
	earlyPrepare = 20 * time.Second // of job.prepare
	earlyBlocked = 30 * time.Second // for which somebody else has the workers' nodes
)

// measureEarly compares a run whose workers' nodes are taken at first, and whose job.prepare takes a while, with and without an early head: for how long the
// workers' nodes were allocated before the driver's first line.
func measureEarly(ctx context.Context, b *measure.Bench) ([]measure.Row, error) {
	var without, with []float64
	side := func(into *[]float64, early bool) func(context.Context) error {
		return func(ctx context.Context) error {
			seconds, err := beforeDriver(ctx, b, early)
			*into = append(*into, seconds)
			return err
		}
	}
	if err := b.Repeat(ctx, "slurm, early head", side(&without, false), side(&with, true)); err != nil {
		return nil, err
	}
	return []measure.Row{measure.Compare(fmt.Sprintf("early head (without), job.prepare of %s behind a blocker: node-seconds of workers before the driver's first line", earlyPrepare), count,
		without, with, 0.6*measure.Median(without), "at most 0.60 of it")}, nil
}

// beforeDriver makes one run and returns the node-seconds of its workers' allocation until the driver's first line.
func beforeDriver(ctx context.Context, b *measure.Bench, early bool) (spent float64, err error) {
	partitions := []slurmtest.Partition{{Name: "cpu", Nodes: "node1"}, {Name: "gpu", Nodes: "node[2-" + strconv.Itoa(1+earlyWorkers) + "]"}}
	s, err := newSite(ctx, b, slurmtest.Options{Nodes: 1 + earlyWorkers, Partitions: partitions})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	_, err = s.Submit(ctx, fmt.Sprintf("sleep %.0f", earlyBlocked.Seconds()), "--job-name=blocker", "--exclusive", "--partition=gpu", "--nodes="+strconv.Itoa(earlyWorkers))
	if err != nil {
		return 0, err
	}
	if err := s.untilJob(ctx, "blocker", "RUNNING"); err != nil {
		return 0, err
	}
	head := map[string]any{"cpus": 1, "early": early, "slurm": map[string]any{"partition": "cpu"}}
	path, err := s.clusterFile(map[string]any{
		"apiVersion": "rayctl/v1", "launcher": "slurm", "name": "early", "ray": map[string]any{"python": b.Python}, "head": head,
		"workers": []any{map[string]any{"name": "w", "cpus": 1, "replicas": earlyWorkers}}, "slurm": map[string]any{"exclusive": true, "partition": "gpu"},
		"job": map[string]any{"prepare": fmt.Sprintf("sleep %.0f", earlyPrepare.Seconds()), "entrypoint": "date +%s.%N >" + s.times},
	})
	if err != nil {
		return 0, err
	}
	if out, err := s.Command(ctx, "", s.b.Rayctl, "run", "-f", path).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("rayctl run: %w: %s", err, out)
	}
	text, err := os.ReadFile(s.times)
	if err != nil {
		return 0, err
	}
	first, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		return 0, err
	}
	jobs, err := s.jobsOf(nil) // the blocker, the cluster's own, with an early head the workers'
	if err != nil {
		return 0, err
	}
	return earlyWorkers * (first - jobs[len(jobs)-1].granted), nil
}
