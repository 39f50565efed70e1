package site

import (
	"strings"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// connecting is how many machines reach one another by a node's address: where there are several, loopback is none (with_addresses of run/nodes/addresses.py).
func connecting(s *spec.ClusterSpec) int {
	nodes := s.MostNodes()
	if slurmspec.Of(s).Expose == "node" {
		nodes++ // the clients' as well
	}
	return nodes
}

// checkNetwork checks what a node answered about its address and its ports (keeper/rayctl_keeper/slurm/doctor/network.py). Without Python on the node it adds no check.
func checkNetwork(node, address, ports string) (checks []launcher.Check) {
	for _, c := range []struct{ name, answer, hint string }{
		{"address of " + node, address, "set slurm.network to an interface or a CIDR that all nodes have"},
		{"slurm.ports on " + node, ports, "set slurm.ports to a range that the site's firewall lets through and that nobody else uses"},
	} {
		if said, text, _ := strings.Cut(c.answer, " "); said == "ok" || said == "no" {
			checks = append(checks, finding(c.name, said == "ok", text, text, c.hint))
		}
	}
	return checks
}
