package slurmbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/test/bench/measure"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// A day with a notebook: two hours with three bursts of ten minutes, sixty times as fast. A node that nothing uses is kept for a minute.
const (
	daySpeed   = 60
	dayWorkers = 3
	dayBursts  = 3
	dayPeriod  = 2 * time.Hour / dayBursts / daySpeed
	dayBurst   = 10 * time.Minute / daySpeed
	dayIdle    = time.Minute / daySpeed
)

// day is such a day on a Slurm cluster of its own.
type day struct {
	jobs []job // the main job first
	told measure.Day
}

// job is one of the day's jobs, in seconds since 1970.
type job struct{ submitted, granted, released float64 }

// measureElastic compares an elastic group with one that is always there: what the same tasks cost, and how soon nodes come and go.
func measureElastic(ctx context.Context, b *measure.Bench) ([]measure.Row, error) {
	var fixed, elastic []day
	side := func(into *[]day, least int) func(context.Context) error {
		return func(ctx context.Context) error {
			d, err := newDay(ctx, b, least)
			*into = append(*into, d)
			return err
		}
	}
	if err := b.Repeat(ctx, "slurm, elastic", side(&fixed, dayWorkers), side(&elastic, 0)); err != nil {
		return nil, err
	}
	of := func(days []day, value func(day) []float64) (all []float64) {
		for _, d := range days {
			all = append(all, value(d)...)
		}
		return all
	}
	for _, d := range elastic {
		b.Say("%s", d.spent())
	}
	today, first, worked := of(fixed, day.workerSeconds), of(fixed, day.firstJoined), fmt.Sprintf("of %d results", dayWorkers*dayBursts)
	if got, want := of(elastic, day.results), of(fixed, day.results); !slices.Equal(got, want) {
		return nil, fmt.Errorf("the elastic cluster has other results: %v, and not %v", got, want)
	}
	return []measure.Row{
		measure.Compare("elastic: demand in Ray to companion submitted", measure.Seconds, nil, of(elastic, day.toSubmission), 6, ""),
		measure.Compare("elastic: grant to node alive (a node of the first start)", measure.Seconds, first, of(elastic, day.toAlive), 1.1*measure.Median(first), "as a node of the first start"),
		measure.Compare("elastic: last task to node released, above scaling.idle", measure.Seconds, nil, of(elastic, day.toRelease), 8, ""),
		measure.Compare(fmt.Sprintf("a day with a notebook, 1:%d: node-seconds of workers (a group that is always there), %s", daySpeed, worked), count, today, of(elastic, day.workerSeconds), 0.35*measure.Median(today), "at most 0.35 of it"),
	}, nil
}

// newDay runs one, with at least so many workers all the time.
func newDay(ctx context.Context, b *measure.Bench, least int) (d day, err error) {
	s, err := newSite(ctx, b, slurmtest.Options{Nodes: 6})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	dir, err := b.WorkingDir("day.py")
	if err != nil {
		return d, err
	}
	entrypoint := shellescape.QuoteCommand([]string{b.Python, filepath.Join(dir, "day.py"), s.times, fmt.Sprint(dayWorkers), fmt.Sprint(dayBursts),
		fmt.Sprint(dayBurst.Seconds()), fmt.Sprint(dayPeriod.Seconds())})
	path, err := s.clusterFile(map[string]any{
		"apiVersion": "rayctl/v1", "launcher": "slurm", "name": "day", "ray": map[string]any{"python": b.Python}, "head": map[string]any{"cpus": 1},
		"workers": []any{map[string]any{"name": "w", "cpus": 1, "replicas": least, "minReplicas": least, "maxReplicas": dayWorkers, "resources": map[string]int{"w": 1}}},
		"scaling": map[string]any{"idle": dayIdle.String()}, "slurm": map[string]any{"exclusive": true}, "job": map[string]any{"entrypoint": entrypoint},
	})
	if err != nil {
		return d, err
	}
	cmd := s.Command(ctx, "", s.b.Rayctl, "run", "-f", path)
	said := new(strings.Builder)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		return d, err
	}
	released, watchErr := s.watchReleases(ctx)
	if err := errors.Join(cmd.Wait(), watchErr); err != nil {
		return d, fmt.Errorf("rayctl run: %w: %s", err, said)
	}
	text, err := os.ReadFile(s.times)
	if err == nil {
		err = json.Unmarshal(text, &d.told)
	}
	if err == nil {
		d.jobs, err = s.jobsOf(released)
	}
	return d, err
}

// clusterFile writes a cluster file, and returns its path.
func (s *slurmSite) clusterFile(file map[string]any) (string, error) {
	text, err := json.Marshal(file)
	if err != nil {
		return "", err
	}
	path := s.Dir + "/shared/cluster.json"
	return path, os.WriteFile(path, text, 0o644)
}

// watchReleases returns when each job had released its nodes, after the last one has.
func (s *slurmSite) watchReleases(ctx context.Context) (map[string]float64, error) {
	released := map[string]float64{}
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		out, err := s.Slurm(ctx, "squeue", "--noheader", "--states=all", "--format=%i %T")
		if err != nil {
			return nil, err
		}
		left := 0
		for _, line := range strings.Split(out, "\n") {
			id, state, _ := strings.Cut(line, " ")
			switch {
			case state == "PENDING" || state == "RUNNING" || state == "COMPLETING":
				left++
			case id != "" && released[id] == 0:
				released[id] = float64(time.Now().UnixMicro()) / 1e6
			}
		}
		if len(released) > 0 && left == 0 { // the main job's number is not always 1: a question to sbatch takes one, too
			return released, nil
		}
	}
}

var (
	submission      = regexp.MustCompile(`(?m)^\[(\S+)\] _slurm_rpc_submit_batch_job: JobId=(\d+)\b`)
	controllersTime = "2006-01-02T15:04:05.000" // times in its log
)

// jobsOf reads when jobs, and each element of arrays, were submitted and granted.
func (s *slurmSite) jobsOf(released map[string]float64) (jobs []job, err error) {
	text, err := os.ReadFile(s.Dir + "/log/slurmctld.log")
	if err != nil {
		return nil, err
	}
	granted, err := s.grants()
	if err != nil {
		return nil, err
	}
	for _, m := range submission.FindAllStringSubmatch(string(text), -1) {
		at, err := time.ParseInLocation(controllersTime, m[1], time.Local)
		if err != nil {
			return nil, err
		}
		for id, granted := range granted { // without those that were not needed any more
			if number, _, _ := strings.Cut(id, "_"); number == m[2] {
				jobs = append(jobs, job{float64(at.UnixMicro()) / 1e6, float64(granted.UnixMicro()) / 1e6, released[id]})
			}
		}
	}
	if len(jobs) == 0 {
		return nil, errors.New("slurmctld's log has no job")
	}
	return jobs, nil
}

// workerSeconds are the seconds for which nodes were allocated, the head's aside.
func (d day) workerSeconds() []float64 {
	if len(d.jobs) == 1 {
		return []float64{dayWorkers * (d.jobs[0].released - d.jobs[0].granted)}
	}
	sum := 0.0
	for _, j := range d.jobs[1:] {
		sum += j.released - j.granted
	}
	return []float64{sum}
}

// spent is what the node-seconds of the workers were used for, in sums over all nodes.
func (d day) spent() string {
	var granted, released, joined, begun float64
	for _, j := range d.jobs[1:] {
		granted, released = granted+j.granted, released+j.released
	}
	for _, at := range d.told.Joined {
		joined += at
	}
	tasks := 0
	for _, t := range d.told.Bursts {
		for _, at := range t.Begun {
			begun, tasks = begun+at, tasks+1
		}
	}
	if nodes := len(d.jobs) - 1; nodes != tasks || nodes != len(d.told.Joined) {
		return fmt.Sprintf("%d companions, %d of whose nodes joined, for %d tasks", nodes, len(d.told.Joined), tasks)
	}
	n := float64(tasks)
	return fmt.Sprintf("node-seconds of %d companions: %.1f from grant to alive, %.1f to the task's begin, %.1f tasks, %.1f kept (scaling.idle), %.1f to release",
		tasks, joined-granted, begun-joined, n*dayBurst.Seconds(), n*dayIdle.Seconds(), released-begun-n*(dayBurst+dayIdle).Seconds())
}

func (d day) results() (sums []float64) {
	for _, burst := range d.told.Bursts {
		sums = append(sums, float64(burst.Sum))
	}
	return sums
}

// toSubmission is from each burst to its last companion's submission.
func (d day) toSubmission() []float64 {
	return d.each(func(wanted, _ float64, jobs []job) float64 { return jobs[len(jobs)-1].submitted - wanted })
}

// toRelease is from the end of each burst's last task to the last companion's release, without the time for which nodes are kept.
func (d day) toRelease() []float64 {
	return d.each(func(_, ended float64, jobs []job) float64 {
		last := 0.0
		for _, j := range jobs {
			last = max(last, j.released)
		}
		return last - ended - dayIdle.Seconds()
	})
}

// each is a value of each burst and its companions.
func (d day) each(value func(wanted, ended float64, jobs []job) float64) (all []float64) {
	for _, burst := range d.told.Bursts {
		var its []job
		for _, j := range d.jobs[1:] {
			if j.submitted >= burst.Wanted && j.submitted < burst.Ended {
				its = append(its, j)
			}
		}
		if len(its) > 0 {
			all = append(all, value(burst.Wanted, burst.Ended, its))
		}
	}
	return all
}

// toAlive is from each companion's grant to its node's life in Ray, in their order.
func (d day) toAlive() (all []float64) {
	granted := make([]float64, 0, len(d.jobs))
	for _, j := range d.jobs[1:] {
		granted = append(granted, j.granted)
	}
	slices.Sort(granted)
	for i, joined := range d.told.Joined {
		if i < len(granted) {
			all = append(all, joined-granted[i])
		}
	}
	return all
}

// firstJoined is from the main job's grant to each worker's life in Ray.
func (d day) firstJoined() (all []float64) {
	for _, joined := range d.told.Joined {
		all = append(all, joined-d.jobs[0].granted)
	}
	return all
}
