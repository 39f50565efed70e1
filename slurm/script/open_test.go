package script

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// TestOpen: for a Ray without tokens the launch reports who reaches what, and with one node nothing listens for other hosts. That nothing does is shown by a
// real Ray 2.40 in TestPartitions/OldRay of slurm.
func TestOpen(t *testing.T) {
	for name, c := range map[string]struct {
		version        string
		workers        int
		section        slurmspec.Section
		address, words string
	}{
		"one node":          {version: "2.46.0", address: "127.0.0.1", words: "listen on the loopback address of its node, and every user who has a process there"},
		"several":           {version: "2.51.1", workers: 2, address: "auto", words: "every user of every host that reaches these, such as login nodes"},
		"one with tokens":   {version: "2.52.0", address: "auto"},
		"not known":         {address: "auto"},
		"named network":     {version: "2.46.0", section: slurmspec.Section{Network: "ib0"}, address: "127.0.0.1", words: "slurm.exclusive"},
		"several, tokens":   {version: "2.60.0", workers: 2, address: "auto"},
		"exposed (refused)": {version: "2.46.0", section: slurmspec.Section{Expose: "node"}, address: "auto", words: "no tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &spec.ClusterSpec{Ray: spec.Ray{Version: c.version}, Head: spec.Head{NodeResources: spec.NodeResources{CPUs: 1}}, Sections: slurmspec.In(&c.section)}
			if c.workers > 0 {
				s.Workers = []spec.WorkerGroup{group("w", c.workers, spec.NodeResources{CPUs: 1})}
			}
			p := planFor(s)
			if got := p.Orders().Advertise; got != c.address {
				t.Errorf("the head's address is %s, want %s", got, c.address)
			}
			if got := Open(p.Spec); (c.words == "") != (got == "") || !strings.Contains(got, c.words) || strings.Contains(got, "\n") {
				t.Errorf("%q, want %q", got, c.words)
			}
		})
	}
}
