//go:build linux

package slurm_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestLimits is a site with accounts, limits and partitions that are not enforced at submission: why jobs wait, in words, and what doctor finds.
func TestLimits(t *testing.T) {
	pace.Parallel(t)
	program, flag := prolog(t)
	var users []string
	if os.Getuid() == 0 {
		users = []string{"bob"}
	}
	b := start(t, slurmtest.Options{
		Nodes: 2, Users: users, GPUs: []slurmtest.GPU{{Type: "h100", Count: 8}}, Accounting: true, Slurmrestd: os.Getuid() == 0, Features: map[int]string{2: "fast"}, Binds: []string{filepath.Dir(program)},
		Partitions: []slurmtest.Partition{{Name: "main", Default: true}, {Name: "short", Extra: "MaxTime=5"}, {Name: "ruled"}},
		JobSubmit:  rules,
		Settings:   map[string]string{"EnforcePartLimits": "NO", "Prolog": program, "Licenses": "fluent:9", "TrackWCKey": "yes"},
	})
	for _, args := range [][]string{
		{"add", "qos", "few", "set", "MaxTRESPerUser=gres/gpu=2"},
		{"add", "account", "tiny", "set", "GrpTRES=cpu=1"},
		{"add", "user", b.User(), "account=tiny"},
		{"modify", "user", b.User(), "set", "qos+=few"},
	} {
		if err := b.Sacctmgr(args...); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("Reasons", func(t *testing.T) { b.reasons(t, flag) })
	t.Run("Others", b.others)
	t.Run("Rules", b.rules)
	t.Run("OtherCluster", b.otherCluster)
	t.Run("Doctor", b.doctorFindings)
	t.Run("Federation", b.federation)
	b.leavesNothing(t)
}

// prolog is a program that fails on the nodes while its flag is there.
func prolog(t *testing.T) (program, flag string) {
	t.Helper()
	dir := t.TempDir()
	program, flag = filepath.Join(dir, "prolog"), filepath.Join(dir, "fails")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n[ ! -e "+flag+" ]\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return program, flag
}

// reasons: Slurm's reason of a waiting job becomes a sentence with a next step, and a job that can never start ends at once.
func (b *bed) reasons(t *testing.T, flag string) {
	l := b.launcher()
	slurmDo := func(args ...string) {
		t.Helper()
		if _, err := b.Slurm(t.Context(), args[0], args[1:]...); err != nil {
			t.Error(err)
		}
	}
	failed, err := b.Submit(t.Context(), "exit 1")
	if err != nil {
		t.Fatal(err)
	}
	b.AwaitJob(t, failed, "FAILED")
	for _, test := range []struct {
		code   string
		change func(*spec.ClusterSpec)
		before func()          // the launch
		meet   func(st string) // once it waits
		after  func()
		words  string
		never  bool
		gc     bool // ends it, not the client that waits for it
	}{
		{code: "QOSMaxGRESPerUser", change: func(s *spec.ClusterSpec) { slurmspec.Of(s).QOS, s.Head.GPUs = "few", 4 }, words: "limit of the QOS"},
		{code: "AssocGrpCpuLimit", change: func(s *spec.ClusterSpec) { slurmspec.Of(s).Account, s.Head.CPUs = "tiny", 2 }, words: "limit of the account"},
		{code: "PartitionTimeLimit", change: func(s *spec.ClusterSpec) { slurmspec.Of(s).Partition, s.Lifetime.Max = "short", units.Limit(time.Hour) }, words: "more time than the partition allows", never: true, gc: true},
		{code: "ReqNodeNotAvail", change: func(s *spec.ClusterSpec) { slurmspec.Of(s).Nodelist = "node2" }, words: "not available",
			before: func() { slurmDo("scontrol", "update", "NodeName=node2", "State=DRAIN", "Reason=test") },
			after:  func() { slurmDo("scontrol", "update", "NodeName=node2", "State=RESUME") }},
		{code: "DependencyNeverSatisfied", change: func(s *spec.ClusterSpec) { slurmspec.Of(s).Dependency = "afterok:" + failed }, words: "ended in a way that never lets it start", never: true},
		{code: "BadConstraints", change: func(s *spec.ClusterSpec) { slurmspec.Of(s).Constraint, slurmspec.Of(s).Begin = "fast", "now+1hour" }, words: "no node can ever meet its constraints", never: true,
			meet: func(job string) {
				slurmDo("scontrol", "update", "NodeName=node2", "AvailableFeatures=", "ActiveFeatures=")
				slurmDo("scontrol", "update", "JobId="+job, "StartTime=now")
			},
			after: func() {
				slurmDo("scontrol", "update", "NodeName=node2", "AvailableFeatures=fast", "ActiveFeatures=fast")
			}},
		{code: "launch_failed_requeued_held", change: func(s *spec.ClusterSpec) {}, words: "its launch failed", never: true, gc: true,
			before: func() {
				if err := os.WriteFile(flag, nil, 0o644); err != nil {
					t.Error(err)
				}
			},
			after: func() {
				if err := os.Remove(flag); err != nil {
					t.Error(err)
				}
				for i, node := range []string{"node1", "node2"} { // one of them was drained; the other cannot be resumed
					_, _ = b.Slurm(t.Context(), "scontrol", "update", "NodeName="+node, "State=RESUME")
					b.AwaitNode(t, i+1, "idle")
				}
			}},
	} {
		t.Run(test.code, func(t *testing.T) {
			if test.before != nil {
				test.before()
			}
			if test.after != nil {
				defer test.after()
			}
			s := b.named(strings.ToLower(strings.ReplaceAll(test.code, "_", "-")), "echo never")
			s.Sections = slurmspec.In(&slurmspec.Section{})
			test.change(s)
			id, err := l.Launch(t.Context(), s, launcher.Payload{})
			if err != nil {
				t.Fatal(err)
			}
			defer b.removed(t, l, id)
			met, collected := false, false
			st := watchUntil(t, l, id, func(st launcher.Status) bool {
				if test.meet != nil && !met && st.Reason.Code == "BeginTime" {
					met = true
					test.meet(strings.TrimPrefix(st.Where, "job "))
				}
				switch { // to watch ends nothing, not even of the client that has launched it
				case st.Due != nil && test.gc:
					found, err := b.launcher().Reconcile(t.Context(), launcher.Scope{})
					if err != nil {
						t.Error(err)
					}
					collected = collected || slices.Contains(found, launcher.Collected{What: "waiting job", Name: s.Name, Why: st.Due.Message})
				case st.Due != nil:
					launcher.ReconcileDue(t.Context(), l, id, *st.Due, slog.Default())
				}
				return isGone(st) || !test.never && strings.HasPrefix(st.Reason.Code, test.code) // a job that can never run shows the reason while it waits, too, and is ended
			})
			switch {
			case test.gc != collected:
				t.Error("gc did not withdraw the job")
			case test.never != isGone(st):
				t.Errorf("phase %s: %+v", st.Phase, st.Reason)
			case test.never && (st.Exit.Code != runstate.CodeStartFailed || !strings.Contains(st.Exit.Message, test.words)):
				t.Errorf("exit: %+v", st.Exit)
			case !test.never && (!strings.Contains(st.Reason.Message, test.words) || st.Reason.Hint == ""):
				t.Errorf("reason: %+v", st.Reason)
			}
		})
	}
}

// removed ends a cluster and its record.
func (b *bed) removed(t *testing.T, l *slurm.Launcher, id launcher.ID) {
	t.Helper()
	b.down(t, l, id)
	if err := l.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
	b.nothingLeft(t, string(id))
}

// others: another user's cluster is listed when asked for, as not ours, and cannot be ended by its name.
func (b *bed) others(t *testing.T) {
	needs.Root(t)
	cmd := b.Cluster.Command(t.Context(), "bob", "sbatch", "--parsable", "--begin=now+1hour", "--comment=rayctl name=theirs spec=h nonce=n", "--output=/dev/null", "--wrap=true")
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	job := strings.TrimSpace(string(out))
	defer func() {
		if _, err := b.Slurm(t.Context(), "scancel", job); err != nil {
			t.Error(err)
		}
	}()
	l := b.launcher()
	id, err := l.Launch(t.Context(), func() *spec.ClusterSpec {
		s := b.named("ours", "true")
		s.Sections = slurmspec.In(&slurmspec.Section{Begin: "now+1hour"})
		return s
	}(), launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.removed(t, l, id)
	b.down(t, l, "theirs")
	for _, others := range []bool{false, true} {
		var seen []string
		all, err := l.List(t.Context(), launcher.Selector{Others: others})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			seen = append(seen, fmt.Sprintf("%s of %s, ours %v, %s %s", s.Name, strings.Split(s.Owner, "@")[0], s.Ours, s.Phase, s.Reason.Code))
		}
		want := []string{"ours of " + b.User() + ", ours true, Queued BeginTime"}
		if others {
			want = append(want, "theirs of bob, ours false, Queued BeginTime")
		}
		slices.Sort(seen)
		if !slices.Equal(seen, want) {
			t.Errorf("others %v: %q, want %q", others, seen, want)
		}
	}
	b.cancelledBySomebody(t, l, id)
}

// cancelledBySomebody: where the site has accounting, the end of a cluster whose job somebody cancelled names that user.
func (b *bed) cancelledBySomebody(t *testing.T, l *slurm.Launcher, id launcher.ID) {
	t.Helper()
	b.scancel(t, id)
	if st := watchUntil(t, l, id, isGone); st.Exit.Cause != runstate.CauseInterrupted || st.Exit.Message != "its job was cancelled by "+b.User() {
		t.Errorf("exit: %+v", st.Exit)
	}
}
