package orders

import (
	"fmt"
	"math"
	"slices"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// onNodes is the job's command and environment, by which it runs on every node if the file has job.launch.
func onNodes(s *spec.ClusterSpec, ports string) (entrypoint string, env map[string]string) {
	j := &s.Job
	if !j.Launch.On() {
		return j.Entrypoint, j.Env
	}
	r := driverio.Ranks{
		Command: j.Entrypoint, PerNode: j.Launch.PerNode, Ports: ports, Grace: Grace(s),
		Reserved: [2]float64{float64(j.EntrypointCPUs), j.EntrypointGPUs},
	}
	runs := s.RankGroups()
	for _, g := range s.NodeGroups() {
		r.Groups = append(r.Groups, driverio.RankGroup{
			Name: g.Name, Count: g.Min, Head: g.Head, Runs: slices.ContainsFunc(runs, func(o spec.NodeGroup) bool { return o.Name == g.Name }),
		})
	}
	return driverio.OnNodes(r, j.Env)
}

// RanksError is why the ranks of job.launch fit on no node of a group: it has not Needed of Key (cpus or gpus; "": the number is wrong in another way).
type RanksError struct {
	Group  spec.NodeGroup
	Key    string
	Needed int // 0: some
	Text   string
}

func (e *RanksError) Error() string { return e.Text }

// path is the key of the cluster file that gives the group's nodes what they lack.
func (e *RanksError) path() string {
	if e.Group.Name == spec.HeadGroupName {
		return "head." + e.Key
	}
	return "workers." + e.Group.Name + "." + e.Key
}

// hint is what to change in the cluster file.
func (e *RanksError) hint() string {
	switch {
	case e.Key == "":
		return "choose a number that divides them"
	case e.Needed == 0:
		return "set " + e.path() + ", or give perNode a number"
	}
	return fmt.Sprintf("set %s: %d, or lower perNode", e.path(), e.Needed)
}

// fitsRanks refuses a number of ranks that a node cannot have, as far as it is known what nodes have.
func fitsRanks(s *spec.ClusterSpec, groups []keeper.Group) error {
	for _, g := range s.RankGroups() {
		i := slices.IndexFunc(groups, func(has keeper.Group) bool { return has.Name == g.Name })
		if i < 0 {
			continue
		}
		each, cpus, gpus := s.Job.Launch.PerNode, known(groups[i].CPUs), g.GPUs
		n := int(each)
		if each == units.EachGPU {
			n = gpus
		}
		var e *RanksError
		switch {
		case n == 0:
			e = &RanksError{g, "gpus", 0, fmt.Sprintf("one process for each GPU, and the nodes of group %s have no GPU", g.Name)}
		case gpus > 0 && gpus%n != 0 && n%gpus != 0:
			e = &RanksError{g, "", 0, fmt.Sprintf("the %d GPUs of a node of group %s cannot be divided equally among %d processes", gpus, g.Name, n)}
		case cpus > 0 && float64(n) > math.Ceil(cpus): // KubeRay rounds a part of a CPU up
			e = &RanksError{g, "cpus", n, fmt.Sprintf("a node of group %s has %s for %d processes", g.Name, amount("CPU", cpus), n)}
		default:
			continue
		}
		return launcher.Fail(runstate.CodeSpec, e, e.hint(), "job.launch.perNode: %s", e.Text)
	}
	return nil
}
