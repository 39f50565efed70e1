package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/test/slurmtest"
)

func init() {
	for _, nodes := range []int{2, 4, 8} {
		slurmMeasures = append(slurmMeasures, measure{fmt.Sprintf("nodes%d", nodes), func(ctx context.Context, b *bench) ([]row, error) { return b.slurmLife(ctx, nodes) }})
	}
	slurmMeasures = append(slurmMeasures, measure{"requests", measureRequests}, measure{"elastic", measureElastic}, measure{"early", measureEarly},
		measure{"warned", measureWarned}, measure{unchanged, measureUnchangedOnSlurm})
}

// slurmRun is one driver on one allocation of whole nodes, with times of the controller and of the driver. Between the driver's last statement
// and the end of its process Ray leaves its cluster, which takes longer on a busier machine.
type slurmRun struct {
	granted, first, last, exited, released time.Time
	requests, files                        float64 // load on the controller and the shared file systems, see cost
}

func (r slurmRun) toFirstLine() float64 { return r.first.Sub(r.granted).Seconds() }
func (r slurmRun) toRelease() float64   { return r.released.Sub(r.exited).Seconds() }
func (r slurmRun) afterLast() float64   { return r.released.Sub(r.last).Seconds() }
func (r slurmRun) wasted() float64 {
	return (r.released.Sub(r.granted) - r.last.Sub(r.first)).Seconds()
}

// starter runs the driver on a site; it returns the job and the time at which it had released its nodes.
type starter func(*slurmSite, context.Context) (job string, released time.Time, err error)

// script is one of Ray's own scripts.
func script(name string) starter {
	return func(s *slurmSite, ctx context.Context) (string, time.Time, error) { return s.sbatch(ctx, name) }
}

// slurmLife runs the same driver with Ray's two scripts and rayctl, alternately, each on a new Slurm cluster.
func (b *bench) slurmLife(ctx context.Context, nodes int) ([]row, error) {
	var symmetric, template, ours []slurmRun
	const tries = 3 // on a busy machine Ray's own ways often fail to start
	side := func(into *[]slurmRun, start starter) func(context.Context) error {
		return func(ctx context.Context) error {
			for try := 1; ; try++ {
				run, err := b.onSlurm(ctx, nodes, start)
				if err == nil {
					*into = append(*into, run)
					return nil
				}
				if b.say("try %d of %d: %v", try, tries, err); try == tries || ctx.Err() != nil {
					return err
				}
			}
		}
	}
	err := b.repeat(ctx, fmt.Sprintf("slurm, %d nodes", nodes),
		side(&ours, (*slurmSite).rayctlRun), side(&template, script("template.sh")), side(&symmetric, script("symmetric.sh")))
	if err != nil {
		return nil, err
	}
	of := func(runs []slurmRun, value func(slurmRun) float64) (all []float64) {
		for _, r := range runs {
			all = append(all, value(r))
		}
		return all
	}
	first, wasted := of(ours, slurmRun.toFirstLine), of(ours, slurmRun.wasted)
	name := func(what, peer string) string { return fmt.Sprintf("%d nodes: %s (%s)", nodes, what, peer) }
	var rows []row
	for _, peer := range []struct {
		name   string
		runs   []slurmRun
		factor float64
	}{{"`ray symmetric-run`", symmetric, 0.85}, {"the documentation's template", template, 0.5}} {
		today := of(peer.runs, slurmRun.toFirstLine)
		rows = append(rows, compare(name("allocation to driver's first line, all nodes alive", peer.name), seconds, today, first, peer.factor*median(today),
			fmt.Sprintf("at most %.2f of it", peer.factor)))
		rows = append(rows, compare(name("driver's exit to allocation released", peer.name), seconds, of(peer.runs, slurmRun.toRelease), of(ours, slurmRun.toRelease), 1.5, ""))
		rows = append(rows, row{measure: name("driver's last statement to allocation released", peer.name),
			today: figures(of(peer.runs, slurmRun.afterLast), seconds), rayctl: figures(of(ours, slurmRun.afterLast), seconds)})
	}
	for _, cost := range []struct {
		what  string
		value func(slurmRun) float64
	}{
		{"requests to the controller, questions aside", func(r slurmRun) float64 { return r.requests }},
		{"files and folders in home", func(r slurmRun) float64 { return r.files }},
	} {
		costs := of(ours, cost.value)
		if _, known := b.costs[cost.what]; !known {
			b.costs[cost.what] = median(costs)
		}
		rows = append(rows, compare(name(cost.what, "the documentation's template"), count, of(template, cost.value), costs, b.costs[cost.what], "as many on any number of nodes"))
	}
	idle := of(symmetric, slurmRun.wasted)
	return append(rows, compare(name("allocated but not running the driver", "`ray symmetric-run`"), seconds, idle, wasted, 0.2*median(idle), "at most 0.20 of it")), nil
}

// slurmSite is a Slurm cluster of its own for one run.
type slurmSite struct {
	*slurmtest.Cluster
	b      *bench
	driver []string
	times  string // written by the driver
}

func (b *bench) newSite(ctx context.Context, o slurmtest.Options) (*slurmSite, error) {
	dir, err := b.workingDir("nodes.py", "timed.sh")
	if err != nil {
		return nil, err
	}
	o.Binds = append(o.Binds, filepath.Dir(filepath.Dir(b.python)), filepath.Dir(b.rayctl), b.dir)
	c, err := slurmtest.New(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &slurmSite{Cluster: c, b: b, times: c.Dir + "/shared/times"}
	s.driver = []string{"sh", filepath.Join(dir, "timed.sh"), s.times, b.python, filepath.Join(dir, "nodes.py"), s.times, strconv.Itoa(o.Nodes)}
	return s, nil
}

// onSlurm makes one run.
func (b *bench) onSlurm(ctx context.Context, nodes int, start starter) (r slurmRun, err error) {
	s, err := b.newSite(ctx, slurmtest.Options{Nodes: nodes})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	job, released, err := start(s, ctx)
	if err != nil {
		return r, err
	}
	r.released = released
	state, err := s.JobState(ctx, job)
	if err == nil && state != "COMPLETED" {
		said, _ := os.ReadFile(s.Dir + "/shared/out")
		err = fmt.Errorf("job %s ended as %s: %s", job, state, tail(said))
	}
	if err != nil {
		return r, err
	}
	if r.granted, err = s.granted(job); err != nil {
		return r, err
	}
	if r.requests, r.files, err = s.cost(ctx); err != nil {
		return r, err
	}
	text, err := os.ReadFile(s.times)
	if err != nil {
		return r, fmt.Errorf("the driver did not run: %w", err)
	}
	err = r.driverTimes(string(text))
	return r, err
}

// driverTimes parses the output of nodes.py and timed.sh.
func (r *slurmRun) driverTimes(text string) error {
	var at [3]float64
	if _, err := fmt.Sscan(text, &at[0], &at[1], &at[2]); err != nil {
		return fmt.Errorf("the driver's times %q: %w", text, err)
	}
	moment := func(s float64) time.Time { return time.UnixMicro(int64(s * 1e6)) }
	r.first, r.last, r.exited = moment(at[0]), moment(at[1]), moment(at[2])
	return nil
}

// begun matches slurmctld's line about the start of a job, or of an element of an array (JobId=7_0(8)), because squeue has only whole seconds.
var begun = regexp.MustCompile(`(?m)^\[(\S+)\] .*(?:Started|Allocate) JobId=(\d+(?:_\d+)?)\b`)

func (s *slurmSite) granted(job string) (time.Time, error) {
	granted, err := s.grants()
	if err == nil && granted[job].IsZero() {
		err = fmt.Errorf("slurmctld's log does not tell when job %s began", job)
	}
	return granted[job], err
}

// grants are when jobs, and elements of arrays, began.
func (s *slurmSite) grants() (map[string]time.Time, error) {
	text, err := os.ReadFile(s.Dir + "/log/slurmctld.log")
	if err != nil {
		return nil, err
	}
	granted := map[string]time.Time{}
	for _, m := range begun.FindAllStringSubmatch(string(text), -1) {
		if granted[m[2]].IsZero() {
			if granted[m[2]], err = time.ParseInLocation(controllersTime, m[1], time.Local); err != nil {
				return nil, err
			}
		}
	}
	return granted, nil
}

// sbatch submits one of Ray's scripts and waits for the release of its nodes.
func (s *slurmSite) sbatch(ctx context.Context, script string) (job string, released time.Time, err error) {
	text, err := drivers.ReadFile("drivers/" + script)
	if err != nil {
		return "", released, err
	}
	path := s.Dir + "/shared/" + script
	if err := os.WriteFile(path, text, 0o755); err != nil {
		return "", released, err
	}
	nodes := strconv.Itoa(s.Options.Nodes)
	cmd := s.Command(ctx, "", "sbatch", append([]string{"--parsable", "--exclusive", "--nodes=" + nodes, "--ntasks-per-node=1", "--mem=0",
		"--output=" + s.Dir + "/shared/out", path}, s.driver...)...)
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(s.b.python)+":"+pathOf(cmd.Env), "RAY_AUTH_MODE=disabled")
	out, err := cmd.Output()
	if err != nil {
		return "", released, fmt.Errorf("sbatch: %w", err)
	}
	job = strings.TrimSpace(string(out))
	released, err = s.untilReleased(ctx, job)
	return job, released, err
}

func pathOf(env []string) (path string) {
	for _, kv := range env {
		if value, is := strings.CutPrefix(kv, "PATH="); is {
			path = value
		}
	}
	return path
}

// untilReleased waits until a job holds no resources, and returns that time.
func (s *slurmSite) untilReleased(ctx context.Context, job string) (time.Time, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		state, err := s.JobState(ctx, job)
		switch {
		case err != nil:
			return time.Time{}, err
		case state != "PENDING" && state != "RUNNING" && state != "COMPLETING":
			return time.Now(), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			said, _ := os.ReadFile(s.Dir + "/shared/out")
			return time.Time{}, fmt.Errorf("job %s is still %s: %s", job, state, tail(said))
		}
	}
}

// rayctlRun is `rayctl run`. The release of the nodes is detected as for the others.
func (s *slurmSite) rayctlRun(ctx context.Context) (job string, released time.Time, err error) {
	cmd := s.Command(ctx, "", s.b.rayctl, append([]string{"run", "--launcher", "slurm", "--workers", strconv.Itoa(s.Options.Nodes), "--cpus-per-worker", "1",
		"--set", "slurm.exclusive=true", "--set", "ray.python=" + s.b.python, "--"}, s.driver...)...)
	said := new(strings.Builder)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		return "", released, err
	}
	if job, err = s.itsJob(ctx); err == nil {
		released, err = s.untilReleased(ctx, job)
	}
	ended := cmd.Wait()
	if err := errors.Join(err, ended); err != nil {
		return "", released, fmt.Errorf("rayctl run: %w: %s", err, said)
	}
	return job, released, nil
}

// itsJob waits for the one job of the cluster.
func (s *slurmSite) itsJob(ctx context.Context) (string, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		out, err := s.Slurm(ctx, "squeue", "--noheader", "--states=all", "--format=%i")
		if err != nil || out != "" {
			return out, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", errors.New("there was no job")
		}
	}
}
