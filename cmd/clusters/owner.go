package clusters

import (
	"strings"

	"github.com/rayctl/rayctl/launcher"
)

// Values of --owner besides a user's name.
const (
	ownerMe  = "me"
	ownerAll = "all"
)

// ownedBy reports whether a cluster is of the users that --owner chooses: me, all, USER or USER@HOST.
func ownedBy(s launcher.Status, owner string) bool {
	name, _, _ := strings.Cut(s.Owner, "@")
	switch owner {
	case ownerAll:
		return true
	case ownerMe:
		return !s.Theirs
	}
	return s.Owner == owner || name == owner
}
