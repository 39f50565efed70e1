// Package slurmbench measures rayctl beside Ray's own scripts on private Slurm clusters.
package slurmbench

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

	"github.com/rayctl/rayctl/test/bench/measure"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// Measures are the measures on private Slurm clusters, in the order of the table.
func Measures() (all []measure.Measure) {
	for _, nodes := range []int{2, 4, 8} {
		all = append(all, measure.Measure{Name: fmt.Sprintf("nodes%d", nodes), Run: func(ctx context.Context, b *measure.Bench) ([]measure.Row, error) { return slurmLife(ctx, b, nodes) }})
	}
	return append(all, measure.Measure{Name: "requests", Run: measureRequests}, measure.Measure{Name: "elastic", Run: measureElastic}, measure.Measure{Name: "early", Run: measureEarly}, measure.Measure{Name: "warned", Run: measureWarned}, measure.Measure{Name: "ranks", Run: measureRanks},
		measure.Measure{Name: measure.Unchanged, Run: measureUnchangedOnSlurm}, measure.Measure{Name: "tunnel", Run: measureTunnel})
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
func slurmLife(ctx context.Context, b *measure.Bench, nodes int) ([]measure.Row, error) {
	var symmetric, template, ours []slurmRun
	const tries = 3 // on a busy machine Ray's own ways often fail to start
	side := func(into *[]slurmRun, start starter) func(context.Context) error {
		return func(ctx context.Context) error {
			for try := 1; ; try++ {
				run, err := onSlurm(ctx, b, nodes, start)
				if err == nil {
					*into = append(*into, run)
					return nil
				}
				if b.Say("try %d of %d: %v", try, tries, err); try == tries || ctx.Err() != nil {
					return err
				}
			}
		}
	}
	err := b.Repeat(ctx, fmt.Sprintf("slurm, %d nodes", nodes),
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
	var rows []measure.Row
	for _, peer := range []struct {
		name   string
		runs   []slurmRun
		factor float64
	}{{"`ray symmetric-run`", symmetric, 0.85}, {"the documentation's template", template, 0.5}} {
		today := of(peer.runs, slurmRun.toFirstLine)
		rows = append(rows, measure.Compare(name("allocation to driver's first line, all nodes alive", peer.name), measure.Seconds, today, first, peer.factor*measure.Median(today),
			fmt.Sprintf("at most %.2f of it", peer.factor)))
		rows = append(rows, measure.Compare(name("driver's exit to allocation released", peer.name), measure.Seconds, of(peer.runs, slurmRun.toRelease), of(ours, slurmRun.toRelease), 1.5, ""))
		rows = append(rows, measure.Row{What: name("driver's last statement to allocation released", peer.name),
			Today: measure.Figures(of(peer.runs, slurmRun.afterLast), measure.Seconds), Rayctl: measure.Figures(of(ours, slurmRun.afterLast), measure.Seconds)})
	}
	for _, cost := range []struct {
		what  string
		value func(slurmRun) float64
	}{
		{"requests to the controller, questions aside", func(r slurmRun) float64 { return r.requests }},
		{"files and folders in home", func(r slurmRun) float64 { return r.files }},
	} {
		costs := of(ours, cost.value)
		if _, known := b.Costs[cost.what]; !known {
			b.Costs[cost.what] = measure.Median(costs)
		}
		rows = append(rows, measure.Compare(name(cost.what, "the documentation's template"), count, of(template, cost.value), costs, b.Costs[cost.what], "as many on any number of nodes"))
	}
	idle := of(symmetric, slurmRun.wasted)
	return append(rows, measure.Compare(name("allocated but not running the driver", "`ray symmetric-run`"), measure.Seconds, idle, wasted, 0.2*measure.Median(idle), "at most 0.20 of it")), nil
}

// slurmSite is a Slurm cluster of its own for one run.
type slurmSite struct {
	*slurmtest.Cluster
	b      *measure.Bench
	driver []string
	times  string // written by the driver
}

func newSite(ctx context.Context, b *measure.Bench, o slurmtest.Options) (*slurmSite, error) {
	dir, err := b.WorkingDir("nodes.py", "timed.sh")
	if err != nil {
		return nil, err
	}
	o.Binds = append(o.Binds, filepath.Dir(filepath.Dir(b.Python)), filepath.Dir(b.Rayctl), b.Dir)
	c, err := slurmtest.New(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &slurmSite{Cluster: c, b: b, times: c.Dir + "/shared/times"}
	s.driver = []string{"sh", filepath.Join(dir, "timed.sh"), s.times, b.Python, filepath.Join(dir, "nodes.py"), s.times, strconv.Itoa(o.Nodes)}
	return s, nil
}

// onSlurm makes one run.
func onSlurm(ctx context.Context, b *measure.Bench, nodes int, start starter) (r slurmRun, err error) {
	s, err := newSite(ctx, b, slurmtest.Options{Nodes: nodes})
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
		err = fmt.Errorf("job %s ended as %s: %s", job, state, measure.Tail(said))
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
var begun = regexp.MustCompile(`(?m)^\[(\S+)\] .*(?:Started|Allocate|_slurm_rpc_allocate_resources) JobId=(\d+(?:_\d+)?)\b`)

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
	text, err := measure.Drivers.ReadFile("drivers/" + script)
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
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(s.b.Python)+":"+pathOf(cmd.Env), "RAY_AUTH_MODE=disabled")
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
			return time.Time{}, fmt.Errorf("job %s is still %s: %s", job, state, measure.Tail(said))
		}
	}
}

// rayctlRun is `rayctl run`. The release of the nodes is detected as for the others.
func (s *slurmSite) rayctlRun(ctx context.Context) (job string, released time.Time, err error) {
	cmd := s.Command(ctx, "", s.b.Rayctl, append([]string{"run", "--launcher", "slurm", "--workers", strconv.Itoa(s.Options.Nodes), "--cpus-per-worker", "1",
		"--set", "slurm.exclusive=true", "--set", "ray.python=" + s.b.Python, "--"}, s.driver...)...)
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
