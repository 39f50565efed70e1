//go:build linux

package chaos

import (
	"context"
	"strings"
	"time"
)

func (w *slurmWorld) earlyFaults() map[string]fault {
	all := w.faults()
	out := merge(earlyFaults(all), map[string]fault{
		"gang cancelled while it waits": {closed: true, strike: w.onGang("scancel", "JOB"), causes: []string{"interrupted"}},
		"gang cancelled":                {strike: w.besideGang(w.onGang("scancel", "JOB")), causes: []string{"interrupted"}},
		"gang preempted":                {strike: w.besideGang(w.gangPreempted), causes: []string{"preempted", "lost"}, node: true},
		"gang's supervisor killed": {strike: w.besideGang(func(r *runningCase) bool {
			return r.until(20*time.Second, func() bool { return kill("keeper.pyz slurm-companion")(r) })
		}), causes: []string{"lost"}, node: true},
		"gang's node loses power":                 {strike: w.besideGang(w.gangsPowerCut), causes: []string{"lost"}, node: true},
		"head's job requeued while prepare hangs": {closed: true, prepare: hangsFirst, strike: all["requeued"].strike},
		"sbatch's answer lost":                    {before: w.lose, strike: w.gangsAnswerLost},
	})
	aroundGrant(w, out, all,
		[]string{"keeper killed", "keeper frozen", "requeued", "scancel", "controller killed", "GCS killed", "node loses power"},
		[]string{"keeper killed", "requeued", "scancel", "GCS killed", "node loses power", "down"})
	return out
}

// gangs are the ids of the run's jobs for its gang in some states. Nodes of an elastic group have jobs of the same name and another script.
func (w *slurmWorld) gangs(r *runningCase, states string) (ids []string) {
	jobs, _ := w.Slurm(context.Background(), "squeue", "--noheader", "--states="+states, "--format=%j %i %o")
	for _, line := range strings.Split(jobs, "\n") {
		if f := strings.Fields(line); len(f) > 2 && strings.HasPrefix(f[0], r.d.run()+"-workers-") && strings.HasSuffix(f[2], "/gang.sh") {
			ids = append(ids, f[1])
		}
	}
	return ids
}

// onGang runs a command of Slurm on the gang's job.
func (w *slurmWorld) onGang(argv ...string) func(*runningCase) bool {
	return func(r *runningCase) bool {
		ids := w.gangs(r, "PENDING,RUNNING")
		if len(ids) == 0 {
			return false
		}
		full := strings.Split(strings.ReplaceAll(strings.Join(argv, " "), "JOB", ids[len(ids)-1]), " ")
		_, err := w.Slurm(context.Background(), full[0], full[1:]...)
		return err == nil
	}
}

// besideGang strikes when the gang's job runs.
func (w *slurmWorld) besideGang(strike func(*runningCase) bool) func(*runningCase) bool {
	return func(r *runningCase) bool {
		return r.until(time.Minute, func() bool { return len(w.gangs(r, "RUNNING")) > 0 }) && strike(r)
	}
}

// gangsAnswerLost: Slurm accepts the gang's job, and the keeper does not learn that. There is never a second one.
func (w *slurmWorld) gangsAnswerLost(r *runningCase) bool {
	if !r.until(time.Minute, func() bool { return !w.losing() }) {
		return false
	}
	for range 20 {
		if ids := w.gangs(r, "PENDING,RUNNING"); len(ids) > 1 {
			r.t.Errorf("the gang has more than one job: %q", ids)
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	return true
}

// gangsPowerCut switches off the last node of the gang.
func (w *slurmWorld) gangsPowerCut(r *runningCase) bool {
	node := w.gangsLastNode(r)
	return node != "" && w.cut(node)
}

// gangPreempted has a job take the gang's last node.
func (w *slurmWorld) gangPreempted(r *runningCase) bool {
	node := w.gangsLastNode(r)
	return node != "" && w.preempt(node)
}

func (w *slurmWorld) gangsLastNode(r *runningCase) string {
	ids := w.gangs(r, "RUNNING")
	if len(ids) == 0 {
		return ""
	}
	nodes, _ := w.Slurm(context.Background(), "squeue", "--noheader", "--jobs="+ids[0], "--format=%N")
	hosts, _ := w.Slurm(context.Background(), "scontrol", "show", "hostnames", strings.TrimSpace(nodes))
	all := strings.Fields(hosts)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}
