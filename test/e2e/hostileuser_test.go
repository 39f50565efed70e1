package e2e

import (
	"net"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/test/faults"
)

// TestHostileUser: from before a launch on, another user of the machine listens on every port that stands in a command line of the victim's, and holds idle
// connections to every port on which the victim's programs listen. The run ends with the driver's code, and that user is sent no token.
func TestHostileUser(t *testing.T) {
	victim, attacker := secondUsers(t)
	victim.withRay()
	attack := faults.StartAttack(t, attacker.exec(t.Context(), "sh", append([]string{"-c", `exec python3 "$@"`, "sh"}, faults.AttackArguments(victimID, ownAddresses(t)...)...)...))
	const driver = `import ray; ray.init(log_to_driver=False, logging_level="ERROR"); print("nodes", len(ray.nodes())); raise SystemExit(7)`
	r := victim.do("run", "--workers", "2", "--cpus-per-worker", "1", "--", "python", "-c", driver)
	if r.code != 7 || !strings.Contains(r.out, "nodes 2\n") {
		t.Errorf("the run ended with %d, the driver printed %q: %s", r.code, r.out, r.err)
	}
	attack.End()
}

// ownAddresses are this machine's, but those of loopback.
func ownAddresses(t *testing.T) (out []string) {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			out = append(out, n.IP.String())
		}
	}
	return out
}
