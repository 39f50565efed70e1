package kubebench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rayctl/rayctl/test/bench/measure"
)

const (
	burstWorkers = 2
	bursts       = 2
	burst        = 5 * time.Second
	burstPeriod  = 50 * time.Second // from one to the next, in which nodes go
	burstIdle    = 5 * time.Second  // scaling.idle
)

// podDay has the times of the pods during bursts of tasks on one cluster.
type podDay struct {
	workers []podLife
	told    measure.Day
}

// measureElastic compares an elastic group with one that is always there: how soon pods come and go.
func (k *kube) measureElastic(ctx context.Context, b *measure.Bench) ([]measure.Row, error) {
	if err := k.up(ctx, b); err != nil {
		return nil, err
	}
	var fixed, elastic []podDay
	side := func(into *[]podDay, least, times int) func(context.Context) error {
		return func(ctx context.Context) error {
			d, err := k.newDay(ctx, b, least, times)
			*into = append(*into, d)
			return err
		}
	}
	if err := b.Repeat(ctx, "kuberay, elastic", side(&fixed, burstWorkers, 1), side(&elastic, 0, bursts)); err != nil {
		return nil, err
	}
	of := func(days []podDay, value func(podDay) []float64) (all []float64) {
		for _, d := range days {
			all = append(all, value(d)...)
		}
		return all
	}
	first := of(fixed, podDay.toAlive)
	return []measure.Row{
		measure.Compare("elastic: demand in Ray to pods made", measure.Seconds, nil, of(elastic, podDay.toPods), 6, ""),
		measure.Compare("elastic: pod's node chosen to node alive in Ray (a node of the first start)", measure.Seconds, first, of(elastic, podDay.toAlive), 1.1*measure.Median(first), "as a node of the first start"),
		measure.Compare("elastic: last task to pods gone, above scaling.idle", measure.Seconds, nil, of(elastic, podDay.toGone), 8, ""),
	}, nil
}

// newDay runs the bursts on a cluster that always has at least this many workers.
func (k *kube) newDay(ctx context.Context, b *measure.Bench, least, times int) (d podDay, err error) {
	driver, err := measure.Drivers.ReadFile("drivers/day.py")
	if err != nil {
		return d, err
	}
	told := filepath.Join(k.shared, "day")
	if err := os.WriteFile(told+".py", driver, 0o644); err != nil {
		return d, err
	}
	period := burstPeriod
	if times == 1 {
		period = burst
	}
	file, err := k.document(b, "elastic", map[string]any{
		"workers": []any{map[string]any{"name": "w", "cpus": 0.2, "memory": "2Gi", "replicas": least, "minReplicas": least, "maxReplicas": burstWorkers, "resources": map[string]int{"w": 1}}},
		"scaling": map[string]any{"idle": burstIdle.String()},
		"job":     map[string]any{"entrypoint": fmt.Sprintf("python %[1]s/day.py %[1]s/day %d %d %.0f %.0f", shareDir, burstWorkers, times, burst.Seconds(), period.Seconds())},
	})
	if err != nil {
		return d, err
	}
	if d.workers, err = k.ofWorkers(ctx, func() error { return k.run(ctx, b, file) }); err != nil {
		return d, err
	}
	text, err := os.ReadFile(told)
	if err == nil {
		err = errors.Join(json.Unmarshal(text, &d.told), os.Remove(told))
	}
	return d, err
}

// document writes a cluster file with these keys beside those that all have.
func (k *kube) document(b *measure.Bench, name string, keys map[string]any) (string, error) {
	file := map[string]any{
		"apiVersion": "rayctl/v1", "launcher": "kuberay", "name": name, "ray": map[string]any{"version": measure.RayVersion}, "head": map[string]any{"cpus": 0.2, "memory": "3Gi"},
		"mounts": []any{map[string]any{"mountPath": shareDir, "source": map[string]any{"kuberay": map[string]any{"hostPath": map[string]any{"path": k.shared}}}}},
	}
	for key, value := range keys {
		file[key] = value
	}
	text, err := json.Marshal(file)
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.Dir, name+".json")
	return path, os.WriteFile(path, text, 0o600)
}

// run is `rayctl run` of a cluster file, to its end.
func (k *kube) run(ctx context.Context, b *measure.Bench, file string) error {
	_, err := k.rayctl(ctx, b, "run", "-f", file)
	return err
}

// of are the pods that were made for a burst.
func (d podDay) of(t measure.Burst) (its []podLife) {
	for _, p := range d.workers {
		if p.made >= t.Wanted && p.made < t.Ended {
			its = append(its, p)
		}
	}
	return its
}

// toPods is from each burst to its last pod.
func (d podDay) toPods() (all []float64) {
	for _, t := range d.told.Bursts {
		if its := d.of(t); len(its) > 0 {
			all = append(all, its[len(its)-1].made-t.Wanted)
		}
	}
	return all
}

// toGone is from the end of each burst's last task until its last pod was gone, without the time for which nodes are kept.
func (d podDay) toGone() (all []float64) {
	for _, t := range d.told.Bursts {
		last := 0.0
		for _, p := range d.of(t) {
			last = max(last, p.gone)
		}
		if last > 0 {
			all = append(all, last-t.Ended-burstIdle.Seconds())
		}
	}
	return all
}

// toAlive is from when each pod had its node to its node's life in Ray, in their order.
func (d podDay) toAlive() (all []float64) {
	placed := make([]float64, 0, len(d.workers))
	for _, p := range d.workers {
		placed = append(placed, p.placed)
	}
	slices.Sort(placed)
	for i, joined := range d.told.Joined {
		if i < len(placed) {
			all = append(all, joined-placed[i])
		}
	}
	return all
}
