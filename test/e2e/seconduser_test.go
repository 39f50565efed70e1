package e2e

import (
	"slices"
	"strings"
	"testing"
)

// TestSecondUser: another user of the machine attacks the files, processes and ports of a user of rayctl.
func TestSecondUser(t *testing.T) {
	victim, attacker := secondUsers(t)
	victim.withRay()
	beforeLocalLaunch(t, victim, attacker, "mine")
	w := attacker.watch()
	w.secrets["job's secret"] = "do-not-show-5f1c77b1e0aa"
	withSecret := victim.write("secret.yaml", "secrets: [MY_SECRET]\n", 0o600)
	env := victim.env
	victim.env = append(slices.Clone(env), "MY_SECRET="+w.secrets["job's secret"])
	victim.want(0, "up", "mine", "-f", withSecret, "--workers", "1", "--cpus-per-worker", "1")
	victim.env = env
	w.secrets["token"] = strings.TrimSpace(victim.must("cat ~/.local/state/rayctl/clusters/mine/ray-token.*"))
	w.secrets["keeper's token"] = strings.TrimSpace(victim.must("cat ~/.local/state/rayctl/clusters/mine/token"))
	t.Run("home", func(t *testing.T) {
		if r := attacker.sh("ls " + victim.home); r.code == 0 {
			t.Errorf("the attacker sees the victim's home: %s", r.out)
		}
		victim.must("ls ~/.local/state/rayctl")
	})
	t.Run("local", func(t *testing.T) { onLocalCluster(t, victim, attacker) })
	t.Run("dashboard", func(t *testing.T) { onDashboard(t, victim, attacker, w) })
	victim.want(0, "down", "mine", "--now")
	w.end()
	t.Run("local launch", func(t *testing.T) { onLocalLaunch(t, victim) })
	t.Run("shared run", func(t *testing.T) { onSharedRun(t, victim, attacker) })
}
