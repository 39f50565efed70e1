package spec_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
)

// An example of a launcher that somebody adds: a section with one key that counts for the hash and one that does not, and a key of groups.
type (
	exampleCluster struct {
		Example *exampleSection `json:"example,omitempty"`
	}
	exampleSection struct {
		Lane string `json:"lane,omitempty"`
		Gate string `json:"gate,omitempty"`
	}
	exampleNode struct {
		Lane string `json:"exampleLane,omitempty"`
	}
)

var example = spec.Register(&spec.Substrate{
	Name: "example", Title: "Example", Order: 1000, Source: "package example",
	Cluster: exampleCluster{}, Node: exampleNode{},
	Default: func(s *spec.ClusterSpec) {
		if exampleOf(s) == nil {
			s.Sections = s.Sections.With("example", &exampleCluster{Example: &exampleSection{}})
		}
		exampleOf(s).Lane = cmp.Or(exampleOf(s).Lane, "slow")
	},
	Validate: func(v *spec.Validator, s *spec.ClusterSpec) {
		if c := exampleOf(s); c != nil {
			v.OneOf("example.lane", c.Lane, "slow", "fast")
		}
	},
	HashScope: func(s *spec.ClusterSpec) { exampleOf(s).Gate = "" },
})

func exampleOf(s *spec.ClusterSpec) *exampleSection {
	if keys := spec.Section[exampleCluster](s.Sections); keys != nil {
		return keys.Example
	}
	return nil
}

// TestAnotherLauncher checks that what a launcher registers is enough.
func TestAnotherLauncher(t *testing.T) {
	s := mustDecode(t, "launcher: example\nexample: {gate: a}\nworkers: [{name: w, exampleLane: x}]\n")
	if err := spec.Validate(s); err != nil {
		t.Error(err)
	}
	if keys := spec.Section[exampleNode](s.Workers[0].Sections); keys == nil || keys.Lane != "x" {
		t.Errorf("the group's key: %+v", s.Workers[0])
	}
	full := spec.For(s, example.Name)
	if exampleOf(full).Lane != "slow" || exampleOf(s).Lane != "" {
		t.Errorf("defaults: %+v, and of the original %+v", exampleOf(full), exampleOf(s))
	}
	other := spec.Copy(s)
	if exampleOf(other).Gate = "b"; spec.Hash(other) != spec.Hash(s) {
		t.Error("how the substrate is reached counts for the hash")
	}
	if exampleOf(other).Lane = "fast"; strings.Join(spec.Diff(s, other), "") != "example.lane: slow -> fast" {
		t.Errorf("difference: %q", spec.Diff(s, other))
	}
	if exampleOf(other).Lane = "fsat"; spec.Validate(other) == nil || !strings.Contains(spec.Validate(other).Error(), "did you mean fast?") {
		t.Errorf("%v", spec.Validate(other))
	}
	if !slices.Contains(spec.Keys(), spec.Key{Path: "example.lane", Env: "RAYCTL_EXAMPLE_LANE"}) {
		t.Error("no variable sets the key")
	}
	if _, err := spec.Decode(strings.NewReader("example: {lnae: x}"), "f.yaml"); err == nil || !strings.Contains(err.Error(), `did you mean "lane"?`) {
		t.Errorf("%v", err)
	}
}
