package sizes

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/rayctl/rayctl/launcher/spec"
)

// Difference is an option with a number that the cluster file cannot meet; its text is one sentence without the next step.
type Difference struct {
	Option string
	Given  int
	Has    int
	In     string // the file that has it; "" for the command line
	what   string
}

func (d *Difference) Error() string {
	in := "job.entrypoint"
	if d.In != "" {
		in = d.In
	}
	return fmt.Sprintf("%s has %s %d, and the cluster file has at most %d %s", in, d.Option, d.Given, d.Has, d.what)
}

// Check is the first option of the job's command, of a script beside the cluster file that it names, or of a file of YAML that one of them names, that wants more
// than the cluster file ever has; nil if there is none. Numbers that are no literals, such as $RAYCTL_GPU_NODES, are not known here and count as right. Fewer
// nodes or GPUs may be intended.
func Check(s *spec.ClusterSpec) *Difference {
	has := largest(s)
	if has[nodes] == 0 { // without GPUs the file is for something else, or Slurm's nodes bring them
		return nil
	}
	for _, from := range sources(&s.Job) {
		for _, o := range options {
			for _, text := range from.values(o.name) {
				if d := has.compare(o, text, from.name); d != nil {
					return d
				}
			}
		}
	}
	return nil
}

// limits are the largest numbers of a cluster file.
type limits map[size]int

// largest counts elastic nodes, too.
func largest(s *spec.ClusterSpec) limits {
	has := limits{}
	for _, g := range s.NodeGroups() {
		if g.GPUs > 0 {
			has[nodes] += g.Max
			has[gpusOfAll] += g.Max * g.GPUs
			has[gpusOfOne] = max(has[gpusOfOne], g.GPUs)
		}
	}
	return has
}

// interval is a range of Python; its end is the number of GPUs.
var interval = regexp.MustCompile(`\brange\(\s*(?:\d+\s*,\s*)?(\d+)\s*\)`)

// compare is the difference if the text is a number above the limit.
func (has limits) compare(o option, text, where string) *Difference {
	if m := interval.FindStringSubmatch(text); m != nil && o.size == gpusOfAll {
		text = m[1]
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= has[o.size] {
		return nil
	}
	what := map[size]string{nodes: "nodes with GPUs", gpusOfOne: "GPUs on a node", gpusOfAll: "GPUs"}[o.size]
	return &Difference{Option: o.name, In: where, Given: n, Has: has[o.size], what: what}
}
