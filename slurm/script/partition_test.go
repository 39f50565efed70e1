package script

import (
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// TestWithin: a job requests lifetime.max and the time that its end takes, unless a partition's limit has room for lifetime.max alone.
func TestWithin(t *testing.T) {
	all := []Partition{{Name: "any", Default: true}, {Name: "hour", Time: time.Hour}, {Name: "long", Time: 2 * time.Hour}, {Name: "short", Time: 5 * time.Minute}}
	for name, test := range map[string]struct {
		partition string
		max       time.Duration // 0: none
		want      string
	}{
		"no limit":                {"any", time.Hour, "64"}, // with the default grace
		"default":                 {"", time.Hour, "64"},
		"unknown":                 {"other", time.Hour, "64"},
		"at the limit":            {"hour", time.Hour, "60"},
		"just below":              {"hour", time.Hour - time.Minute, "60"},
		"room for the end":        {"hour", 50 * time.Minute, "54"},
		"Slurm refuses it itself": {"hour", time.Hour + time.Minute, "65"},
		"any of several":          {"any,long,hour", time.Hour, "60"},
		"one has no time for it":  {"short,long", time.Hour, "64"},
		"without lifetime.max":    {"hour", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &spec.ClusterSpec{Sections: slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Partition: test.partition}})}
			if test.max > 0 {
				s.Lifetime.Max = units.Limit(test.max)
			}
			if got := planFor(s).Within(all).TimeLimit(); got != test.want {
				t.Errorf("--time=%s, want %s", got, test.want)
			}
		})
	}
}

// TestTooLarge counts what a partition may ever give a job, whatever state its nodes are in.
func TestTooLarge(t *testing.T) {
	all := []Partition{{Name: "small", Nodes: 2}, {Name: "big", Nodes: 4}}
	s := &spec.ClusterSpec{Workers: []spec.WorkerGroup{group("a", 3, spec.NodeResources{GPUs: 1}), group("b", 2, spec.NodeResources{GPUs: 2})}}
	for name, test := range map[string]struct {
		component int
		partition string
		want      string
	}{
		"fits":          {0, "big", ""},
		"too large":     {0, "small", "it asks for 3 nodes, and a job may have 2 in partition small"},
		"one of two":    {0, "small,big", ""},
		"not this part": {1, "small", ""},
		"unknown":       {0, "other", ""},
	} {
		if got := planFor(s).TooLarge(test.component, test.partition, all); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
