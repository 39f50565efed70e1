package slurmspec

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
)

// interfaceName matches what Linux allows, less what would be something else here.
var interfaceName = regexp.MustCompile(`^[A-Za-z0-9_.:@-]{1,15}$`)

func network(v *spec.Validator, text string) {
	const hint = "write it like ib0, 10.1.0.0/16 or ib0,eth0"
	if text == "" {
		return
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if strings.Contains(part, "/") {
			_, err := netip.ParsePrefix(part)
			v.FailIf(err != nil, "slurm.network", hint, "%q is not a CIDR", part)
			continue
		}
		_, err := netip.ParseAddr(part)
		v.FailIf(err == nil, "slurm.network", "write the network that all nodes are in, like 10.1.0.0/16", "%s is the address of one node", part)
		v.FailIf(!interfaceName.MatchString(part) || strings.HasPrefix(part, "-"), "slurm.network", hint, "%q is not an interface", part)
	}
}

// What ports are needed for, as in keeper/rayctl_keeper: node/start/nodeports.py, run/nodes/common.py and host/portrange.py.
const (
	portGroup   = 16            // is what one process takes at a time
	portsFixed  = 8             // of a node: its raylet, its agents, the dashboard, the autoscaler
	portsLeast  = 16            // for workers and drivers, and
	portsPerCPU = 2             // more
	portsKeeper = 2 * portGroup // beside the head: of the keeper and the head, where the range does not begin with a whole group
	portsOfUser = 1024          // is the first that a user may listen on (and Ray's least, parameter.py)
	portsLast   = 65535         // of TCP
)

var portRange = regexp.MustCompile(`^(\d{1,5})-(\d{1,5})$`)

func portsIn(v *spec.Validator, text string, s *spec.ClusterSpec) {
	if text == "" {
		return
	}
	m := portRange.FindStringSubmatch(text)
	if m == nil {
		v.Fail("slurm.ports", "write it like 20000-21000", "%q is not a range of ports", text)
		return
	}
	first, _ := strconv.Atoi(m[1]) // digits
	last, _ := strconv.Atoi(m[2])
	if first < portsOfUser || last > portsLast || first > last {
		v.Fail("slurm.ports", "write it like 20000-21000", "%s is not a range between %d and %d", text, portsOfUser, portsLast)
		return
	}
	if s.Launcher != Name {
		return
	}
	needed, who := neededPorts(s)
	v.FailIf(last-first+1 < needed, "slurm.ports", "make it larger", "%s has %d ports, and a node of %s with the keeper beside it needs %d", text, last-first+1, who, needed)
	v.FailIf(s.HasOlderRay("2.49.0"), "slurm.ports", "leave it out, or set a later ray.version", "Ray %s opens other ports, too: it needs 2.49 or later", s.Ray.Version)
}

// PortsNeeded is how many ports of slurm.ports a machine has to have free for one of the largest nodes and the keeper.
func PortsNeeded(s *spec.ClusterSpec) int {
	needed, _ := neededPorts(s)
	return needed
}

// neededPorts returns the smallest number of ports that the machine of the largest node needs, and that node's group. The CPUs of a node that takes
// a whole machine are unknown here.
func neededPorts(s *spec.ClusterSpec) (needed int, who string) {
	for _, g := range s.NodeGroups() {
		own := portsFixed + portsLeast + portsPerCPU*max(1, int(g.CPUs))
		own = (own + portGroup - 1) / portGroup * portGroup
		if g.Max > 0 && own+portsKeeper > needed {
			needed, who = own+portsKeeper, g.Name
		}
	}
	return needed, who
}
