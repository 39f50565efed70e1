// Package tspspec is task-spooler's part of the cluster file.
package tspspec

import (
	_ "embed"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
)

// Name is the launcher's name, and the key of its section.
const Name = "tsp"

//go:embed types.go
var source string

// Substrate registers task-spooler's part of the cluster file.
var Substrate = spec.Register(&spec.Substrate{
	Name: Name, Title: "task-spooler", On: "on this machine, queued by task-spooler", Order: 4, Source: source,
	Cluster:         cluster{},
	ChosenBySection: true,
	Default: func(s *spec.ClusterSpec) {
		if Of(s) == nil {
			s.Sections = s.Sections.With(Name, &cluster{TSP: &Section{}})
		}
		localspec.OnThisMachine(s)
	},
	Validate: func(v *spec.Validator, s *spec.ClusterSpec) {
		if s.Launcher == Name {
			localspec.ValidateHere(v, s)
		}
	},
	HashScope:        func(s *spec.ClusterSpec) { Of(s).Socket = "" },
	Ignored:          localspec.IgnoredHere,
	SharesFilesystem: func(*spec.ClusterSpec) bool { return true },
	ExecHere:         true,
	EarlyHead:        true,
	Python:           "the environment of ray.python",
})

// Of is the file's section; nil if it has none.
func Of(s *spec.ClusterSpec) *Section {
	if keys := spec.Section[cluster](s.Sections); keys != nil {
		return keys.TSP
	}
	return nil
}
