package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestUpChanged: up with a changed file applies what may change on a living cluster, names what may not, and finds the same cluster from then on.
func TestUpChanged(t *testing.T) {
	u := newUser(t)
	file := func(name, text string) string {
		return u.write(name, "name: grows\njob: {grace: 500ms}\nhead: {cpus: 1}\nworkers: [{name: w, minReplicas: 0, "+text)
	}
	first := file("first.yaml", "maxReplicas: 3, cpus: 1}]\nlifetime: {max: 2h, idle: 1h}\n")
	second := file("second.yaml", "maxReplicas: 2, replicas: 1, cpus: 1}]\nlifetime: {max: 3h, idle: 30m}\nscaling: {idle: 10m}\n")
	other := file("other.yaml", "maxReplicas: 3, cpus: 2}]\nlifetime: {max: 3h, idle: 1h}\n")
	more := file("more.yaml", "maxReplicas: 4, cpus: 1}]\nlifetime: {max: 3h, idle: 1h}\n")
	// What has passed when the cluster is ready, however fast that is. job.grace has to be shorter.
	short := file("short.yaml", "maxReplicas: 3, cpus: 1}]\nlifetime: {max: 1s, idle: 1h}\n")
	const changes = "lifetime.max: 2h -> 3h"

	contains(t, "before", u.want(0, "up", "-f", first, "--dry-run").out, "grows does not exist: up would launch it")
	u.want(0, "up", "-d", "-f", file("longer.yaml", "maxReplicas: 3, cpus: 1}]\nlifetime: {max: 3h, idle: 1h}\n"))
	contains(t, "a change while it starts", u.want(0, "up", "-f", first).err, "grows: changed lifetime.max: 3h -> 2h", "cluster grows is Ready")
	contains(t, "the same", u.want(0, "up", "-f", first, "--dry-run").out, "up would change nothing")
	contains(t, "a dry run", u.want(0, "up", "-f", second, "--dry-run").out, "workers.w.maxReplicas: 3 -> 2", changes, "lifetime.idle: 1h -> 30m", "scaling.idle: not set -> 10m")
	contains(t, "nothing was changed", u.want(0, "up", "-f", first, "--dry-run").out, "up would change nothing")
	contains(t, "as JSON", u.want(0, "up", "-f", second, "--dry-run", "-o", "json").out, `"action": "change"`, `"path": "lifetime.max"`)

	for path, words := range map[string]string{
		other: "workers.w.cpus: 1 -> 2)", more: "the maximum of group w can be 0 to 3 nodes, and not 4", short: "lifetime.max of 1s has passed already",
	} {
		contains(t, "what may not change", u.want(65, "up", "-f", path).err, words, "--recreate")
		contains(t, "a dry run of it", u.want(65, "up", "-f", path, "--dry-run").err, words)
	}
	contains(t, "what may", u.want(65, "up", "-f", other).err, "only workers[].replicas, workers[].minReplicas, workers[].maxReplicas, scaling.idle, lifetime.max, lifetime.idle")
	if s := u.want(0, "status", "grows").out; !strings.Contains(s, "lifetime.max, in 1 h") {
		t.Errorf("a refused file has changed something: %s", s)
	}

	contains(t, "the change", u.want(0, "up", "-f", second).err, "grows: changed "+changes, "grows: changed workers.w.maxReplicas: 3 -> 2", "cluster grows is Ready")
	contains(t, "the limits", u.want(0, "status", "grows").out, "lifetime.max, in 2 h", "w-0")
	if again := u.want(0, "up", "-f", second).err; strings.Contains(again, "changed") {
		t.Errorf("again: %s", again)
	}
	contains(t, "and back", u.want(0, "up", "-f", first).err, "lifetime.max: 3h -> 2h")
	contains(t, "the limits", u.want(0, "status", "grows").out, "lifetime.max, in 1 h")

	// A client that gave up while the keeper was busy: what the keeper has and what is recorded differ until the next up.
	path := filepath.Join(home.dir, "state", "rayctl", "clusters", "grows", "record.json")
	record, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	u.want(0, "up", "-f", second)
	if err := os.WriteFile(path, record, 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, "the file in the record", u.want(0, "up", "-f", first, "--dry-run").out, "up would change it back to this file")
	contains(t, "the file of the keeper", u.want(0, "up", "-f", second).err, "grows: changed "+changes)
	contains(t, "recorded", u.want(0, "up", "-f", second, "--dry-run").out, "up would change nothing")
	u.want(0, "submit", "grows", "-q", "--", "echo", "once")
	u.want(7, "submit", "grows", "-q", "--submission-id", "fails", "--", "sh", "-c", "echo of fails; exit 7")
	u.start(false, "submit", "grows", "--submission-id", "runs", "--", "sh", "-c", "echo of runs; exec sleep 600").until("of runs\n", 1)
	u.want(0, "down", "grows")
	contains(t, "what was submitted, in the record", u.want(0, "history", "grows").out, "3 jobs (")
	for job, code := range map[string]int{"fails": 7, "runs": runstate.CodeInterrupted} {
		if out := u.want(0, "logs", "grows", job).out; out != "of "+job+"\n" {
			t.Errorf("the output of job %s after the end: %q", job, out)
		}
		u.want(code, "wait", "grows", job)
	}
	contains(t, "the jobs after the end", u.want(0, "jobs", "grows").out, "echo once", " FAILED ", " STOPPED ")
}

// TestUpCancelled expects that nothing is left.
func TestUpCancelled(t *testing.T) {
	u := newUser(t)
	s := u.start(true, "up", "cancelled")
	s.until("Ray is starting", 1)
	s.key(ctrlC)
	if code := s.code(); code != runstate.CodeInterrupted {
		t.Errorf("exit code %d, %q", code, s)
	}
	apptest.Fits(t, s.String(), columns)
	if out := u.want(0, "ls", "-o", "name").out; strings.Contains(out, "cancelled") {
		t.Errorf("still there: %s", out)
	}
	u.want(0, "up", "cancelled", "--detach", "--workers", "2") // there was no job whose record could be lost
	u.want(0, "down", "cancelled", "--now")
}
