//go:build linux

package slurm_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// federation: a job of a federation stays in the cluster whose directory the run has, though others may have copies in each cluster.
func (b *bed) federation(t *testing.T) {
	sibling, err := b.Federate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	viable := func(job string) string { // the clusters that may start it
		t.Helper()
		out, err := b.Slurm(t.Context(), "squeue", "--noheader", "--states=all", "--jobs="+job, "--Format=siblingsviable:40")
		if err != nil {
			t.Fatal(err)
		}
		clusters := strings.Split(strings.TrimSpace(out), ",")
		slices.Sort(clusters)
		return strings.Join(clusters, ",")
	}
	plain, err := b.Submit(t.Context(), "true", "--begin=now+1hour", "--account=users")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := viable(plain), sibling+",testbed"; got != want {
		t.Errorf("a job that names no cluster may run in %q, want %q: this is no federation", got, want)
	}
	l := b.launcher()
	s := b.named("federated", "echo in one cluster")
	s.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Account: "users"}})
	checks := l.Check(t.Context(), s)
	if bad := failing(checks); len(bad) > 0 {
		t.Errorf("doctor finds %q: %+v", bad, checks)
	}
	if says := "testbed is in the federation both with " + sibling + "; jobs stay in testbed"; !slices.ContainsFunc(checks, func(c launcher.Check) bool {
		return c.Name == "federation" && strings.HasPrefix(c.Detail, says)
	}) {
		t.Errorf("doctor does not say %q: %+v", says, checks)
	}
	r := b.begin(t, s, launcher.Payload{})
	runs := r.until("running or over", func(s launcher.Status) bool { return jobRuns(s) || isGone(s) })
	job := strings.TrimPrefix(runs.Where, "job ")
	if got := viable(job); got != "testbed" {
		t.Errorf("%s may run in %q", runs.Where, got)
	}
	r.ended(0, "succeeded", "")
	if r.out.String() != "in one cluster\n" {
		t.Errorf("output %q", r.out.String())
	}
	r.forgotten()
	slurmspec.Of(s).Cluster = "nosuch"
	elsewhere := slurm.New(slurm.Config{Runner: b.beside, Dir: b.Dir(), Cluster: "nosuch"})
	defer elsewhere.Close()
	_, err = elsewhere.Launch(t.Context(), s, launcher.Payload{})
	if launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), "correct slurm.cluster") {
		t.Errorf("in a cluster that is not there: %v (code %d)", err, launcher.ExitCode(err))
	}
	if os.Getuid() == 0 {
		b.federationByREST(t)
	}
	if _, err := b.Slurm(t.Context(), "scancel", plain); err != nil {
		t.Error(err)
	}
}

// federationByREST: slurmrestd cannot be asked whether there is a federation, and its answer shows it. The job has started nothing.
func (b *bed) federationByREST(t *testing.T) {
	rest := startRestd(t, b)
	s := b.named("copied", "echo never")
	s.Sections = slurmspec.In(&slurmspec.Section{Begin: "now+1hour", Group: slurmspec.Group{Account: "users"}})
	_, err := rest.launcher(t).Launch(t.Context(), s, launcher.Payload{})
	if launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), "is in a federation") || !strings.Contains(err.Error(), "slurm.cluster") {
		t.Errorf("by slurmrestd: %v (code %d)", err, launcher.ExitCode(err))
	}
	b.nothingLeft(t, "copied")
}
