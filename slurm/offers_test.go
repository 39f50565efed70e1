package slurm

import (
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
)

// TestOffers: a client submits what the cluster's keeper offers, and nothing else that somebody with the cluster's token may ask for.
func TestOffers(t *testing.T) {
	const name, script = "dev-elastic-1", "/r/a%b/elastic-b.sh"
	groups := map[string]string{script: "b", "/r/a%b/elastic-long-name.sh": "long-name", "/r/a%b/gang.sh": keeper.Gang}
	const job, place, output = "--job-name=" + name, "--chdir=/r/a%b/2", "--output=/r/a%%b/2/nodes/b-%a/companion.1.out"
	offer := func(more ...string) []string { return append([]string{job, place}, more...) }
	for _, c := range []struct {
		argv []string
		want bool
	}{
		{offer(output, "--open-mode=append", "--no-requeue", "--comment=rayctl nodes of b", "--array=0,11", "--time=90", "--signal=B:USR1@22.5", script, "/r/a%b/2", "b-0", "1", "b-11", "2"), true},
		{[]string{job, "--chdir=/r/a%b", "--output=/r/a%%b/nodes/long-name-3/companion.1.out", "/r/a%b/elastic-long-name.sh", "/r/a%b", "long-name-3", "1"}, true},
		{offer("--output=/r/a%%b/2/nodes/.gang/companion.1.out", "--open-mode=append", "--no-requeue", "/r/a%b/gang.sh", "/r/a%b/2", ".gang", "1"), true},
		{offer("/r/a%b/gang.sh", "/r/a%b/2", "b-0", "1"), false},
		{offer("--array=0,1", "/r/a%b/gang.sh", "/r/a%b/2", ".gang", "1"), false}, // many gangs
		{offer("--time=90", "/r/a%b/gang.sh", "/r/a%b/2", ".gang", "1"), false},   // its script has its limit
		{offer(script, "/r/a%b/2", "b-0", "1", "--wrap=id"), false},
		{offer(script, "/r/a%b/2", "b-0"), false},
		{offer(script, "/r/a%b/2"), false},
		{offer(script), false},
		{offer(script, "/r/a%b/2", "a-0", "1"), false},                                   // of another group
		{offer(script, "/r/a%b/2", "b-0/../../../evil", "1"), false},                     // reads its orders there
		{offer(script, "/r/a%b/3", "b-0", "1"), false},                                   // not where it runs
		{[]string{job, "--chdir=/tmp/evil", script, "/tmp/evil", "b-0", "1"}, false},     // reads its orders there
		{[]string{job, "--chdir=/r/a%b/../x", script, "/r/a%b/../x", "b-0", "1"}, false}, // the same
		{offer("--output=/home/me/.bashrc", script, "/r/a%b/2", "b-0", "1"), false},      // writes there
		{offer(output+"/x", script, "/r/a%b/2", "b-0", "1"), false},                      // the same
		{offer(output, "--open-mode=truncate", script, "/r/a%b/2", "b-0", "1"), false},   // loses what is there
		{offer("--array=0-9999", script, "/r/a%b/2", "b-0", "1"), false},                 // more than nodes
		{offer("--comment=x' --wrap='id", script, "/r/a%b/2", "b-0", "1"), false},        // no words of a keeper's
		{offer("--wrap=id", script, "/r/a%b/2", "b-0", "1"), false},                      // no option of a keeper's
		{offer("--job-name=other", script, "/r/a%b/2", "b-0", "1"), false},               // would not end with the cluster
		{offer("-prod", script, "/r/a%b/2", "b-0", "1"), false},                          // no option of a keeper's
		{offer("--output", script, "/tmp/other.sh"), false},                              // the first would be the output
		{offer("/tmp/other.sh", "/r/a%b/2", "b-0", "1"), false},                          // no script of the cluster's
		{[]string{place, script, "/r/a%b/2", "b-0", "1"}, false},                         // no name
		{[]string{job}, false},
		{nil, false},
	} {
		if got := isOffer(c.argv, name, "/r/a%b", groups); got != c.want {
			t.Errorf("%q: %t", c.argv, got)
		}
	}
}
