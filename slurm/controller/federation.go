package controller

import (
	"context"
	"strings"
)

// Federation is a set of clusters that start each other's jobs.
type Federation struct {
	Name     string   // "": the cluster is in none
	Self     string   // the cluster that was asked
	Siblings []string // the other clusters
}

// Federation implements Controller.
func (c Commands) Federation(ctx context.Context) (Federation, error) {
	out, err := Run(ctx, c.Runner, c.clean("scontrol", "show", "federation")...)
	return parseFederation(out), err
}

// parseFederation reads scontrol's lines: "Federation: NAME", "Self: CLUSTER:HOST:PORT ID:1 ...", "Sibling: CLUSTER:HOST:PORT ID:2 ..." (slurm/src/api/federation_info.c).
// Without a federation it prints nothing.
func parseFederation(out string) (f Federation) {
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		name, _, _ := strings.Cut(words[1], ":")
		switch words[0] {
		case "Federation:":
			f.Name = words[1]
		case "Self:":
			f.Self = name
		case "Sibling:":
			f.Siblings = append(f.Siblings, name)
		}
	}
	return f
}

// firstFederated is the least id of a job that a federation got: bits 26 to 31 are the number of the cluster there, counted from 1 (federation.html,
// "Federated Job IDs"). Ids of other jobs are smaller (slurm.conf(5), MaxJobId).
const firstFederated = 1 << 26

// IsFederated reports whether a job was submitted to a federation.
func IsFederated(id int) bool { return id >= firstFederated }
