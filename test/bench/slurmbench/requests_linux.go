package slurmbench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/rayctl/rayctl/test/bench/measure"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// window is how long requests are counted.
const window = time.Minute

// measureRequests counts the requests of one watched cluster to Slurm's controller in a minute, while waiting and while running. It compares
// them with `squeue --me --iterate=5`, which people leave running.
func measureRequests(ctx context.Context, b *measure.Bench) ([]measure.Row, error) {
	var waiting, running, today []float64
	err := b.Repeat(ctx, "slurm, requests", func(ctx context.Context) error {
		w, r, s, err := countRequests(ctx, b)
		waiting, running, today = append(waiting, w), append(running, r), append(today, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return []measure.Row{
		measure.Compare("requests to the controller in a minute while a cluster waits (`squeue --iterate=5`)", count, today, waiting, 6, ""),
		measure.Compare("requests to the controller in a minute while it runs (`squeue --iterate=5`)", count, today, running, 2, ""),
	}, nil
}

func count(v float64) string { return fmt.Sprintf("%.0f", v) }

// cost counts a site's requests to the controller, except queries, which rayctl, Slurm's commands and this bench send from time to
// time; and the files in the users' homes.
func (s *slurmSite) cost(ctx context.Context) (requests, files float64, err error) {
	orders, err := s.Orders(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, n := range orders {
		requests += float64(n)
	}
	err = filepath.WalkDir(s.Dir+"/home", func(string, fs.DirEntry, error) error {
		files++
		return nil
	})
	return requests, files, err
}

func countRequests(ctx context.Context, b *measure.Bench) (waiting, running, squeue float64, err error) {
	s, err := newSite(ctx, b, slurmtest.Options{})
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	other, err := s.Submit(ctx, "sleep 100000", "--exclusive")
	if err != nil {
		return 0, 0, 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ours := s.Command(ctx, "", s.b.Rayctl, "run", "--launcher", "slurm", "--set", "slurm.exclusive=true", "--set", "ray.python="+s.b.Python, "--name", "watched", "--", "sleep", "100000")
	if squeue, err = s.iterated(ctx); err != nil {
		return 0, 0, 0, err
	}
	if err := ours.Start(); err != nil {
		return 0, 0, 0, err
	}
	defer func() { _ = ours.Wait() }() // killed
	defer cancel()
	if err := s.untilJob(ctx, "watched", "PENDING"); err != nil {
		return 0, 0, 0, err
	}
	if waiting, err = s.requests(ctx); err != nil {
		return 0, 0, 0, err
	}
	if _, err := s.Slurm(ctx, "scancel", other); err != nil {
		return 0, 0, 0, err
	}
	if err := s.untilDriver(ctx, "watched"); err != nil {
		return 0, 0, 0, err
	}
	if running, err = s.requests(ctx); err != nil {
		return 0, 0, 0, err
	}
	cancel()
	return waiting, running, squeue, nil
}

// iterated counts the requests of a squeue left running.
func (s *slurmSite) iterated(ctx context.Context) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	squeue := s.Command(ctx, "", "squeue", "--me", "--iterate=5")
	if err := squeue.Start(); err != nil {
		cancel()
		return 0, err
	}
	defer func() { _ = squeue.Wait() }() // killed
	defer cancel()
	return s.requests(ctx)
}

// untilJob waits for a job's state.
func (s *slurmSite) untilJob(ctx context.Context, name, state string) error {
	return s.until(ctx, "job "+name+" to be "+state, func() (bool, error) {
		out, err := s.Slurm(ctx, "squeue", "--noheader", "--name="+name, "--format=%T")
		return out == state, err
	})
}

// untilDriver waits until the driver runs.
func (s *slurmSite) untilDriver(ctx context.Context, name string) error {
	return s.until(ctx, "the driver to run", func() (bool, error) {
		cmd := s.Command(ctx, "", s.b.Rayctl, "status", name, "--launcher", "slurm", "-o", "json")
		out, err := cmd.Output()
		return strings.Contains(string(out), `"RUNNING"`), err
	})
}

func (s *slurmSite) until(ctx context.Context, what string, condition func() (bool, error)) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := condition()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}

// requests counts the requests of users' commands within the window.
func (s *slurmSite) requests(ctx context.Context) (total float64, err error) {
	if err := s.ResetRequests(ctx); err != nil {
		return 0, err
	}
	select {
	case <-time.After(window):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	counts, err := s.Requests(ctx)
	for _, n := range counts {
		total += float64(n)
	}
	return total, err
}
