package clusters

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/launcher"
)

// Values of --owner besides a user's name.
const (
	ownerMe  = "me"
	ownerAll = "all"
)

func addOwner(f *pflag.FlagSet, owner *string, byDefault, usage string) {
	f.StringVar(owner, "owner", byDefault, usage)
}

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
