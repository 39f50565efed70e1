package spec_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
)

// TestRankGroups: which nodes run a command of job.launch. The head does where it has no workers, has what is asked for, or is named; elastic nodes never.
func TestRankGroups(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"none", "workers: [{name: w}]", ""},
		{"all worker groups", "job: {launch: {perNode: 2}}\nhead: {on: head}\nworkers: [{name: v, replicas: 2}, {name: w}]", "v w"},
		{"the head on a worker's node", "job: {launch: {perNode: 1}}\nhead: {on: w}\nworkers: [{name: v}, {name: w}]", "w v"},
		{"the head alone", "job: {launch: {perNode: 1}}", "head"},
		{"the head is named", "job: {launch: {groups: [w, head]}}\nhead: {on: head}\nworkers: [{name: w}]", "head w"},
		{"GPUs", "job: {launch: {perNode: gpu}}\nhead: {on: head}\nworkers: [{name: v}, {name: w, gpus: 2}]", "w"},
		{"GPUs of the head alone", "job: {launch: {perNode: gpu}}\nhead: {gpus: 1}", "head"},
		{"no required node", "job: {launch: {perNode: 1}}\nhead: {on: head}\nworkers: [{name: v, replicas: 0, minReplicas: 0, maxReplicas: 2}, {name: w}]", "w"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := spec.Decode(strings.NewReader("name: x\n"+c.file), "test.yaml")
			if err != nil {
				t.Fatal(err)
			}
			spec.Default(s)
			var got []string
			for _, g := range s.RankGroups() {
				got = append(got, g.Name)
			}
			if !slices.Equal(got, strings.Fields(c.want)) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
