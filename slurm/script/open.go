package script

import (
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// tokens is the first Ray that asks for a token.
const tokens = "2.52.0"

// Open describes who can connect to what in a cluster whose Ray, of the version that the file names, has no tokens; "" if it has, or if the file names none. With a token,
// Ray and the keeper answer only to the user.
func Open(s *spec.ClusterSpec) string {
	if !s.HasOlderRay(tokens) {
		return ""
	}
	why := "Ray " + s.Ray.Version + " has no tokens (2.52 and later have): "
	const can = " can run code as you and read your files and the cluster's secrets"
	if onLoopback(s) {
		return why + "GCS, dashboard and Ray's client server listen on the loopback address of its node, and every user who has a process there, for example a job," + can +
			"; slurm.exclusive keeps the jobs of others away from the node"
	}
	return why + "GCS and Ray's client server listen on the addresses of the nodes, and every user of every host that reaches these, such as login nodes and nodes with the jobs of others," + can +
		"; the dashboard listens on the loopback address of the head's node, for the users of that node; a cluster of one node listens on loopback only"
}

// onLoopback reports whether nothing of a cluster without tokens listens on an address that other hosts reach: it has one node, and no need to.
func onLoopback(s *spec.ClusterSpec) bool {
	return s.HasOlderRay(tokens) && s.MostNodes() == 1 && slurmspec.Of(s).Expose != "node"
}

// advertise is the address of the head's node for the others: the node's own choice, or loopback.
func advertise(s *spec.ClusterSpec) string {
	if onLoopback(s) {
		return "127.0.0.1"
	}
	return "auto"
}
