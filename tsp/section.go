package tsp

import (
	_ "embed"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
)

// name is the launcher's name, and the key of its section.
const name = "tsp"

//go:embed types.go
var source string

// clusterFile registers task-spooler's part of the cluster file.
var clusterFile = spec.Register(&spec.Substrate{
	Name: name, Title: "task-spooler", On: "on this machine, queued by task-spooler", Order: 4, Source: source,
	Cluster:         cluster{},
	ChosenBySection: true,
	Default: func(s *spec.ClusterSpec) {
		if sectionOf(s) == nil {
			s.Sections = s.Sections.With(name, &cluster{TSP: &Section{}})
		}
		localspec.OnThisMachine(s)
	},
	Validate: func(v *spec.Validator, s *spec.ClusterSpec) {
		if s.Launcher == name {
			localspec.ValidateHere(v, s)
		}
	},
	HashScope:        func(s *spec.ClusterSpec) { sectionOf(s).Socket = "" },
	Ignored:          localspec.IgnoredHere,
	Here:             localspec.Here,
	SharesFilesystem: func(*spec.ClusterSpec) bool { return true },
	ExecHere:         true,
	EarlyHead:        true,
	Python:           "the environment of ray.python",
})

// sectionOf is the file's section; nil if it has none.
func sectionOf(s *spec.ClusterSpec) *Section {
	if keys := spec.Section[cluster](s.Sections); keys != nil {
		return keys.TSP
	}
	return nil
}
