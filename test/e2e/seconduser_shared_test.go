package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/leak"
)

// teller prints its attempt, waits for a file, and fails.
const teller = `echo "attempt $RAYCTL_ATTEMPT"; until [ -e "$0" ]; do sleep 0.1; done; exit 3`

// onSharedRun: a colleague of the group of job.shareDir reads a run that lives and that has ended; another user reads nothing. Neither gets at its secrets, or
// changes anything, or leads rayctl's writing elsewhere, although the group may write to the directory above.
func onSharedRun(t *testing.T, victim, attacker *secondUser) {
	colleague := newSecondUser(t, "colleague", colleagueID)
	colleague.team = true
	owner := *victim
	owner.team = true
	team := filepath.Join(commonDir(t), "team")
	for _, step := range []error{os.Mkdir(team, 0o700), os.Chown(team, 0, teamID), os.Chmod(team, 0o2770)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	run, finish := filepath.Join(team, "told"), filepath.Join(owner.home, "tell.finish")
	colleague.must("ln -s " + owner.home + " " + filepath.Join(team, "taken"))
	r := owner.do("run", "--name", "taken", "--set", "job.shareDir="+team, "--", "true")
	if r.code != runstate.CodeStartFailed {
		t.Errorf("a name that another user has linked: %d, %s", r.code, r.err)
	}
	contains(t, "the error", r.err, "cannot be shared", filepath.Join(team, "taken"))

	const secret = "do-not-tell-8d1f20c4aa77"
	file := owner.write("told.yaml", "secrets: [MY_SECRET]\njob: {restarts: {driver: 1}, shareDir: "+team+"}\n", 0o600)
	owner.env = append(slices.Clone(owner.env), "MY_SECRET="+secret)
	job := owner.start("run", "--name", "told", "-f", file, "--", "sh", "-c", teller, finish)
	job.until("attempt 1", 1)
	secrets := append(strings.Fields(owner.must("cd ~/.local/state/rayctl/clusters/told && cat token && echo && cat ray-token.*")), secret)
	shows := func(what string, args ...string) {
		t.Helper()
		eventually(t, what, func() bool { r := colleague.do(args...); return r.code == 0 && strings.Contains(r.out, what) })
	}
	shows("attempt 1\n", "logs", run)
	shows("Ready", "status", run)
	following := colleague.start("logs", "-f", run)
	following.until("attempt 1\n", 1)
	if err := following.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	if code := following.code(); code != runstate.CodeInterrupted || !strings.Contains(following.String(), "stopped watching the shared run told") {
		t.Errorf("who follows it and interrupts: %d, %s", code, following)
	}
	for _, who := range []*secondUser{attacker, colleague} {
		refused(t, who, "cat "+owner.home+"/.local/state/rayctl/clusters/told/token")
		refused(t, who, "cat "+owner.home+"/.local/state/rayctl/clusters/told/ray-token.0")
		refused(t, who, "ls "+owner.home+"/.local/state/rayctl/clusters")
		for _, script := range []string{"echo x >> driver.log", "rm -f driver.log && ! ls driver.log", "touch new", "ln -s /etc/passwd new", "chmod 777 ."} {
			refused(t, who, "cd "+run+" && "+script)
		}
		if code := who.do("down", run).code; code == 0 {
			t.Errorf("%s ended the run", who.name)
		}
	}
	refused(t, attacker, "ls "+run)
	contains(t, "who is not in the group", attacker.want(runstate.CodePermission, "logs", run).err, "not permitted", run)
	seen := colleague.must("cat " + run + "/*")
	for _, value := range secrets {
		if how := leak.Find([]byte(seen), value); how != "" {
			t.Errorf("the shared files have a secret, %s", how)
		}
	}

	// The directory above is the group's: the run's is renamed, and a link to the owner's files takes its place.
	colleague.must("mv " + run + " " + run + ".moved && ln -s " + owner.home + "/work " + run)
	owner.write("tell.finish", "", 0o600)
	if code := job.code(); code != 3 {
		t.Errorf("exit code %d: %s", code, job)
	}
	if found := owner.must("ls ~/work"); strings.Contains(found, "driver") || strings.Contains(found, ".json") {
		t.Errorf("written through the link: %s", found)
	}
	run += ".moved"
	if out := colleague.want(0, "logs", run).out; out != "attempt 2\n" {
		t.Errorf("the output: %q", out)
	}
	if out := colleague.want(3, "logs", "-f", run).out; out != "attempt 2\n" {
		t.Errorf("the output with -f: %q", out)
	}
	if out := colleague.want(0, "logs", run, "--attempt", "1").out; out != "attempt 1\n" {
		t.Errorf("the output of the first attempt: %q", out)
	}
	s := decode[launcher.Status](t, colleague.want(0, "status", run, "-o", "json").out)
	if s.Exit == nil || s.Exit.Code != 3 || len(s.Attempts) != 2 || s.Owner != "user 12345" {
		t.Errorf("%+v", s)
	}
	contains(t, "status", colleague.want(0, "status", run).out, "node-seconds", "user 12345")
}
