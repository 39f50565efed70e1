package script

import (
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// firstWithTokens is the first version of Ray that asks its clients for a token.
const firstWithTokens = "2.52.0"

// Open returns a sentence that says who else can connect to the cluster, for a cluster file whose ray.version has no tokens. It is "" if that version has tokens,
// or if the file names no version. With a token, Ray and the keeper answer only to the user.
func Open(s *spec.ClusterSpec) string {
	if !s.HasOlderRay(firstWithTokens) {
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

// onLoopback reports whether all parts of a cluster without tokens listen on the loopback address only: the cluster has one node, and slurm.expose does not ask
// for the node's address.
func onLoopback(s *spec.ClusterSpec) bool {
	return s.HasOlderRay(firstWithTokens) && s.MostNodes() == 1 && slurmspec.Of(s).Expose != "node"
}

// advertise is the address under which other nodes reach the head's node. "auto": the node chooses it.
func advertise(s *spec.ClusterSpec) string {
	if onLoopback(s) {
		return "127.0.0.1"
	}
	return "auto"
}
