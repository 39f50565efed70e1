//go:build linux

package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func (w *slurmWorld) elasticFaults() map[string]fault {
	all := w.faults()
	out := merge(nodeFaults(), map[string]fault{
		"companion cancelled":           {strike: w.onCompanion("RUNNING", w.scancel)},
		"companion cancelled in queue":  {strike: w.queued(w.onCompanion("PENDING", w.scancel))},
		"companion preempted":           {strike: w.onCompanion("RUNNING", func(c companion) bool { return w.preempt(c.node) })},
		"companion's node loses power":  {strike: w.onCompanion("RUNNING", func(c companion) bool { return w.cut(c.node) })},
		"companion's supervisor killed": {strike: w.beside("RUNNING", kill("keeper.pyz slurm-companion"))},
		"sbatch's answer lost":          {strike: w.answerLost},
	})
	for _, name := range []string{"keeper killed", "keeper frozen", "down", "down --now", "controller killed", "client killed", "GCS killed"} {
		f := all[name]
		f.strike = w.queued(w.beside("PENDING", all[name].strike))
		out[name+" while a companion is queued"] = f
	}
	for _, name := range []string{"keeper killed", "down", "GCS killed", "controller killed"} {
		f := all[name]
		f.strike = w.starting(all[name].strike)
		out[name+" while a companion starts"] = f
	}
	for _, name := range []string{"keeper killed", "GCS killed", "node loses power", "requeued", "scancel"} {
		f := all[name]
		f.strike = w.beside("RUNNING", all[name].strike)
		out[name+" beside a companion"] = f
	}
	return out
}

// companion is a job of an elastic node, or an element of a job array.
type companion struct{ id, node, state string }

func (w *slurmWorld) companions(r *runningCase, state string) (found []companion) {
	jobs, _ := w.Slurm(context.Background(), "squeue", "--noheader", "--array", "--format=%j %i %T %N")
	for _, line := range strings.Split(jobs, "\n") {
		if f := append(strings.Fields(line), ""); len(f) > 3 && strings.HasPrefix(f[0], r.d.run()+"-elastic-") && (state == "" || f[2] == state) {
			found = append(found, companion{id: f[1], state: f[2], node: f[3]})
		}
	}
	return found
}

// onCompanion strikes the last of the run's companion jobs in a state, as soon as there is one.
func (w *slurmWorld) onCompanion(state string, strike func(companion) bool) func(*runningCase) bool {
	return func(r *runningCase) bool {
		var last companion
		found := func() bool {
			all := w.companions(r, state)
			if len(all) > 0 {
				last = all[len(all)-1]
			}
			return len(all) > 0
		}
		return r.demand(found) && strike(last)
	}
}

// beside strikes when there is a companion in a state.
func (w *slurmWorld) beside(state string, strike func(*runningCase) bool) func(*runningCase) bool {
	return func(r *runningCase) bool { return w.onCompanion(state, func(companion) bool { return strike(r) })(r) }
}

// queued strikes while companions are not granted. If all nodes that there may be are there already, one is cancelled, so that Ray asks for another one.
func (w *slurmWorld) queued(strike func(*runningCase) bool) func(*runningCase) bool {
	return func(r *runningCase) bool {
		w.hold(true)
		defer w.hold(false)
		if running := w.companions(r, "RUNNING"); len(running)+r.d.workers >= r.d.most() {
			w.scancel(running[len(running)-1])
		}
		struck := strike(r)
		time.Sleep(4 * time.Second)
		return struck
	}
}

// starting strikes as soon as another companion is granted.
func (w *slurmWorld) starting(strike func(*runningCase) bool) func(*runningCase) bool {
	return func(r *runningCase) bool {
		before := map[string]bool{}
		for _, c := range w.companions(r, "RUNNING") {
			before[c.id] = true
		}
		if len(before)+r.d.workers >= r.d.most() {
			for _, c := range w.companions(r, "RUNNING") {
				w.scancel(c)
			}
		}
		another := func() bool {
			for _, c := range w.companions(r, "RUNNING") {
				if !before[c.id] {
					return true
				}
			}
			return false
		}
		return r.demand(another) && strike(r)
	}
}

// answerLost: Slurm accepts a companion's job, and the keeper does not learn that. There are never more companions than Ray may ask for.
func (w *slurmWorld) answerLost(r *runningCase) bool {
	w.lose(r)
	if !r.demand(func() bool { return !w.losing() }) {
		return false
	}
	for range 20 {
		if all := append(w.companions(r, "PENDING"), w.companions(r, "RUNNING")...); len(all) > r.d.most()-r.d.workers {
			r.t.Errorf("there are more companions than Ray may ask for: %+v", all)
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	return true
}

// lose has the next answer of an sbatch on a node be lost, and losing reports whether that is still to come.
func (w *slurmWorld) lose(r *runningCase) {
	if err := os.WriteFile(filepath.Join(w.orders, "lose"), nil, 0o644); err != nil {
		r.t.Error(err)
	}
}

func (w *slurmWorld) losing() bool {
	_, err := os.Stat(filepath.Join(w.orders, "lose"))
	return !errors.Is(err, os.ErrNotExist)
}

func (w *slurmWorld) scancel(c companion) bool {
	_, err := w.Slurm(context.Background(), "scancel", c.id)
	return err == nil
}

// preempt has a job of the partition with the higher priority take a node for some seconds.
func (w *slurmWorld) preempt(node string) bool {
	_, err := w.Submit(context.Background(), "sleep 5", "--partition=high", "--exclusive", "--nodes=1", "--nodelist="+node)
	return err == nil
}

// hold closes the partition of workers; jobs that run there continue. It is tried until it succeeds: the controller may be away.
func (w *slurmWorld) hold(closed bool) {
	state := "State=UP"
	if closed {
		state = "State=DOWN"
	}
	var err error
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(300 * time.Millisecond) {
		if _, err = w.Slurm(context.Background(), "scontrol", "update", "PartitionName=main", state); err == nil {
			return
		}
	}
	w.t.Errorf("the partition could not be changed to %s: %v", state, err)
}
