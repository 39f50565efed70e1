package launcher

import (
	"strings"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// SameSpec compares the wish with a living cluster: nil if they are the same, else ErrConflict. launched is the file that its record has, st the keeper's
// state, nil: not known. The keeper takes a changed file before the record has it, and a client may die in between: then neither file is the same until
// one of them is taken again, with its record.
func SameSpec(id ID, st *runstate.State, launched, s *spec.ClusterSpec) error {
	diff := spec.Diff(launched, s)
	if len(diff) == 0 && !TookAnother(st, s) {
		return nil
	}
	return conflict(id, diff)
}

// TookAnother reports whether the keeper has taken a changed file other than this one.
func TookAnother(st *runstate.State, s *spec.ClusterSpec) bool {
	return st != nil && st.Changes > 0 && st.SpecHash != spec.Hash(s)
}

func conflict(id ID, diff []string) error {
	if len(diff) == 0 {
		diff = []string{"its cluster file was changed while it ran"}
	}
	return Fail(runstate.CodeSpec, ErrConflict, "choose another name, or replace it with --recreate", "a cluster named %s exists with another spec (%s)", id, strings.Join(diff, "; "))
}
