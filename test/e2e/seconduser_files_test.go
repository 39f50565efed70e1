package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestSecondUserFiles: files that another user left where the victim uses rayctl run nothing as the victim, and the victim's own files work.
func TestSecondUserFiles(t *testing.T) {
	victim, attacker := secondUsers(t)
	common := commonDir(t)
	mark := filepath.Join(common, "caught")
	own := func(t *testing.T, name string) string { // a directory of the victim's that others can only read
		t.Helper()
		dir := filepath.Join(common, name)
		victim.in(t).mkdir(dir, 0o755)
		return dir
	}
	attackers := filepath.Join(common, "attackers")
	attacker.mkdir(attackers, 0o755)
	attacker.write(attackers+"/kubeconfig", kubeconfig(mark), 0o644)
	trapIn := func(t *testing.T, dir string) { // from the attacker, in a directory writable by the attacker
		t.Helper()
		attacker := attacker.in(t)
		attacker.must("mkdir -p " + dir + "/.git")
		attacker.write(dir+"/rayctl.yaml", trap(attackers), 0o644)
	}
	trapIn(t, attackers)

	t.Run("refused", func(t *testing.T) {
		victim, attacker := victim.in(t), attacker.in(t)
		trapIn(t, common)
		defer os.Remove(common + "/rayctl.yaml")
		defer os.Remove(mark)
		open := own(t, "open")
		victim.write(open+"/rayctl.yaml", "name: open\n", 0o644)
		victim.must("chmod 777 " + open)
		team := filepath.Join(common, "team") // root's, with a group that has other members
		for _, step := range []error{os.Mkdir(team, 0o755), os.Chown(team, 0, 100), os.Chmod(team, 0o2775), os.WriteFile(team+"/rayctl.yaml", []byte("name: team\n"), 0o644)} {
			if step != nil {
				t.Fatal(step)
			}
		}
		linked := own(t, "linked")
		victim.must("ln -s " + attackers + "/rayctl.yaml " + linked + "/rayctl.yaml")
		sticky := own(t, "sticky")
		victim.must("chmod 1777 " + sticky)
		victim.write("good.yaml", trap(attackers), 0o644)
		attacker.must("ln -s " + victim.home + "/good.yaml " + sticky + "/rayctl.yaml")
		through := own(t, "through")
		victim.must("ln -s ../attackers " + through + "/dir")
		for _, c := range []struct{ name, dir, why string }{
			{"below another's work tree", own(t, "mine"), "belongs to user 12346"},
			{"in another's directory", attackers, "belongs to user 12346"},
			{"own, where others may write", open, "can be written by every user: `chmod go-w " + open + "`"},
			{"where a group may write", team, "can be written by the group users"},
			{"through a link to a file", linked, "belongs to user 12346"},
			{"through another's link", sticky, "belongs to user 12346"},
			{"through a link to a directory", through + "/dir", "belongs to user 12346"},
		} {
			for _, args := range [][]string{{"ls"}, {"run", "--", "true"}, {"status", "x"}} {
				victim.dir = c.dir
				victim.env = []string{"PWD=" + c.dir} // like a shell that came through the link
				r := victim.want(runstate.CodePermission, args...)
				if !strings.Contains(r.err, "-f ") || !strings.Contains(r.err, "rayctl.yaml") || !strings.Contains(r.err, c.why) || r.out != "" || strings.Count(r.err, "\n") != 1 {
					t.Errorf("%s: %s", c.name, r.err)
				}
			}
			if r := victim.do("__complete", "status", ""); strings.Contains(r.out, "trap") {
				t.Errorf("%s: completion: %s", c.name, r.out)
			}
		}
		if exists(mark) {
			t.Fatal("another user's file ran a command")
		}
		victim.dir, victim.env = attackers, nil
		victim.do("ls", "-f", "rayctl.yaml")
		if !exists(mark) {
			t.Error("a file that was named is not used: this test would not see what it looks for")
		}
	})

	t.Run("own files work", func(t *testing.T) {
		victim := victim.in(t)
		for dir, modes := range map[string][2]os.FileMode{"plain": {0o755, 0o644}, "private": {0o700, 0o600}, "umask 002": {0o2775, 0o664}} { // the group's id is the user's
			victim.dir = own(t, dir)
			victim.mkdir(victim.dir+"/.git", modes[0])
			victim.mkdir(victim.dir+"/sub", modes[0])
			victim.mkdir(victim.dir, modes[0])
			victim.write(victim.dir+"/rayctl.yaml", "name: mine\n", modes[1])
			victim.dir += "/sub"
			r := victim.want(0, "render", "--spec", "--up")
			if first, _, _ := strings.Cut(r.err, "\n"); first != "using ../rayctl.yaml" || !strings.Contains(r.out, "name: mine") {
				t.Errorf("%s: %q, %s", dir, r.err, r.out)
			}
		}
	})

	t.Run("directories made beforehand", func(t *testing.T) {
		victim, attacker := victim.in(t), attacker.in(t)
		for _, variable := range []string{"XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"} {
			base := filepath.Join(common, variable)
			attacker.mkdir(base+"/rayctl", 0o777)
			attacker.write(base+"/rayctl/config.yaml", "profiles: {default: {name: trap}}\n", 0o644)
			for _, args := range [][]string{{"ls"}, {"up", "x"}, {"history"}} {
				victim.dir, victim.env = victim.home, []string{variable + "=" + base}
				r := victim.want(runstate.CodePermission, args...)
				contains(t, variable, r.err, "belongs to user 12346", variable)
			}
			if out := attacker.must("ls " + base + "/rayctl"); out != "config.yaml\n" {
				t.Errorf("something was written into %s: %s", base, out)
			}
		}
	})

	t.Run("modules in the current directory", func(t *testing.T) {
		victim, attacker := victim.in(t), attacker.in(t)
		attacker.write(attackers+"/json.py", "import os; os.system('touch "+mark+"')\n", 0o644)
		attacker.must("rm " + attackers + "/rayctl.yaml")
		victim.dir, victim.env = attackers, []string{"RAYCTL_RAY_PYTHON=/usr/bin/python3"}
		victim.do("doctor")
		if exists(mark) {
			t.Error("another user's json.py was run")
		}
	})
}

// kubeconfig is the kubeconfig of the trap.
func kubeconfig(mark string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
		"users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: ['" + mark + "'], interactiveMode: Never}}}]\n"
}

// trap is a cluster file that runs a command as the user who loads it, even with `rayctl ls`: ssh would refuse a user id without a name.
func trap(dir string) string {
	return fmt.Sprintf("name: trap\nkuberay: {kubeconfig: %s/kubeconfig}\n", dir)
}
