package e2e

import (
	"path/filepath"
	"testing"
)

// TestOneDirectory: a job on a cluster that was made elsewhere runs in the directory of submit with its tasks and actors, and what it leaves in the cluster's output directory
// can be copied. The directory of a submit that the node does not have is noted.
func TestOneDirectory(t *testing.T) {
	u := sharedCluster(t)
	u.dir = filepath.Join(u.dir, "it's $HOME 100%24")
	u.write("where.py", whereabouts)
	r := u.want(0, "submit", "shared", "--submission-id", "where", "--", "python", "where.py")
	if want := u.dir + "|" + u.dir + "|" + u.dir + "|shared\n\n"; r.out != want {
		t.Errorf("printed %q, want %q", r.out, want)
	}
	if text := u.read("from-task"); text != "task" {
		t.Errorf("a task's relative path: %q", text)
	}
	contains(t, "the receipt", r.err, "where succeeded\n  time    ", "\n  log     `rayctl logs -c shared where`\n  output  /")
	u.want(0, "cp", "shared:", "results")
	if text := u.read("results/result"); text != "result" {
		t.Errorf("the results: %q", text)
	}
}
