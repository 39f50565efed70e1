package observe

import "strings"

// SameOwner reports whether clusters of these owners, USER@HOST, belong to one person: to a user, from any machine. root is somebody else in each
// container, and is the same only on the same machine. Clusters without an owner are everybody's.
func SameOwner(x, y string) bool {
	userX, _, _ := strings.Cut(x, "@")
	userY, _, _ := strings.Cut(y, "@")
	return x == "" || y == "" || x == y || userX == userY && userX != "root"
}
