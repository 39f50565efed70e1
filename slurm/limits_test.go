//go:build linux

package slurm_test

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"al.essio.dev/pkg/shellescape"

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
	b := newBed(t, slurmtest.Options{
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

// rules are a site's own (job_submit.lua): a partition takes jobs with a project as their comment, a wckey and a licence only, and its plugin
// writes a comment of its own.
const rules = `
function slurm_job_submit(job, partitions, uid)
	if job.partition ~= "ruled" then return slurm.SUCCESS end
	if job.comment == "timed" and job.time_limit == slurm.NO_VAL then return slurm.ESLURM_MISSING_TIME_LIMIT end -- as job_submit/require_timelimit does
	if job.comment ~= "project-7" then
		slurm.log_user("say which project it is for: --comment=project-NUMBER")
		return slurm.ERROR
	end
	if job.wckey ~= "w" or job.licenses ~= "fluent:2" then
		slurm.log_user("--wckey and --licenses are missing")
		return slurm.ERROR
	end
	if job.min_mem_per_node or job.min_mem_per_cpu then
		slurm.log_user("do not request memory: it goes with the CPUs")
		return slurm.ERROR
	end
	job.comment = "billed to 7"
	return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end
return slurm.SUCCESS
`

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
		name   string // of the cluster, if it is not the code's
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
		{code: "DependencyNeverSatisfied", name: "withdrawn-by-slurm", change: func(s *spec.ClusterSpec) {
			slurmspec.Of(s).Dependency, slurmspec.Of(s).ExtraArgs = "afterok:"+failed, []string{"--kill-on-invalid-dep=yes"}
		}, words: "ended in a way that never lets it start", never: true},
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
		name := cmp.Or(test.name, strings.ToLower(strings.ReplaceAll(test.code, "_", "-")))
		t.Run(cmp.Or(test.name, test.code), func(t *testing.T) {
			if test.before != nil {
				test.before()
			}
			if test.after != nil {
				defer test.after()
			}
			s := b.named(name, "echo never")
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

// cancelledBySomebody: where the site has accounting, the end of a cluster whose job somebody cancelled names that user, if it waits as well as if it runs:
// then the keeper has seen no more than a signal.
func (b *bed) cancelledBySomebody(t *testing.T, l *slurm.Launcher, waiting launcher.ID) {
	t.Helper()
	s := b.named("ours-runs", "echo never")
	s.Setup = "sleep 1000"
	running, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.removed(t, l, running)
	watchUntil(t, l, running, func(st launcher.Status) bool { return st.Phase == runstate.Starting })
	for _, id := range []launcher.ID{waiting, running} {
		b.scancel(t, id)
		if st := watchUntil(t, l, id, isGone); st.Exit.Cause != runstate.CauseInterrupted || st.Exit.Message != "its job was cancelled by "+b.User() {
			t.Errorf("exit of %s: %+v", id, st.Exit)
		}
	}
}

// rules: what a site requires of jobs is shown in the site's own words, by launches and by doctor, and can be set in the file.
func (b *bed) rules(t *testing.T) {
	l := b.launcher()
	asks := func(comment string, args ...string) *spec.ClusterSpec {
		s := b.named("ruled", "python -c "+shellescape.Quote(bothNodes))
		none, one := 0, 1
		s.Workers = []spec.WorkerGroup{{Name: "w", Replicas: &one, MinReplicas: &none, MaxReplicas: &one, NodeResources: smallNode()}}
		s.Sections = slurmspec.In(&slurmspec.Section{Comment: comment, Group: slurmspec.Group{Partition: "ruled", ExtraArgs: args}})
		return s
	}
	allowed := []string{"--wckey=w", "--licenses=fluent:2", "--mail-type=END"}
	whole, none := asks("project-7", allowed...), false
	slurmspec.Of(whole).RequestMemory = &none
	for words, s := range map[string]*spec.ClusterSpec{
		"say which project it is for": asks(""), "--licenses are missing": asks("project-7", "--wckey=w"),
		"Invalid license specification": asks("project-7", "--wckey=w", "--licenses=nosuch:2"), "Time limit specification required": asks("timed"),
		"do not request memory": asks("project-7", allowed...),
	} {
		next := "slurm.extraArgs"
		if words == "Time limit specification required" {
			next = "set lifetime.max"
		}
		if words == "Invalid license specification" {
			slurmspec.Of(s).Partition = "main"
		}
		_, err := l.Launch(t.Context(), s, launcher.Payload{})
		if launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), next) {
			t.Errorf("%v (code %d), want %q", err, launcher.ExitCode(err), words)
		}
		b.nothingLeft(t, "ruled")
		checks := l.Check(t.Context(), s)
		if bad := failing(checks); !slices.Equal(bad, []string{"request"}) || !strings.Contains(checks[len(checks)-1].Hint, next) {
			t.Errorf("doctor finds %q: %+v", bad, checks)
		}
	}
	if bad := failing(l.Check(t.Context(), whole)); len(bad) > 0 {
		t.Errorf("doctor finds %q", bad)
	}
	r := b.begin(t, whole, launcher.Payload{})
	r.ended(0, "succeeded", "")
	if r.out.String() != "under rules\n" {
		t.Errorf("output %q", r.out.String())
	}
	r.forgotten()
}

// bothNodes waits for the node that has a job of its own, to which the rules apply as well.
const bothNodes = `import ray, time
ray.init(log_to_driver=False, logging_level="ERROR")
while len(ray.nodes()) < 2:
    time.sleep(0.2)
print("under rules")`

// otherCluster: the login node belongs to another cluster than the one that is meant, as where several share an accounting database. Its own
// controller is nobody: whatever asked it would fail.
func (b *bed) otherCluster(t *testing.T) {
	conf, err := os.ReadFile(b.Cluster.Dir + "/etc/slurm.conf")
	if err != nil {
		t.Fatal(err)
	}
	front := b.Cluster.Dir + "/etc/front.conf"
	text := strings.NewReplacer("ClusterName=testbed", "ClusterName=front", "SlurmctldPort=6817", "SlurmctldPort=1").Replace(string(conf))
	if err := os.WriteFile(front, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	other := *b
	other.Env = append(slices.Clone(b.Env), "SLURM_CONF="+front)
	l := slurm.New(slurm.Config{Runner: other.beside, Dir: b.Dir(), Cluster: "testbed"})
	defer l.Close()
	s := b.named("elsewhere", "echo over there; exec sleep 600")
	s.Sections = slurmspec.In(&slurmspec.Section{Cluster: "testbed", Group: slurmspec.Group{Account: "users"}})
	if bad := failing(l.Check(t.Context(), s)); len(bad) > 0 {
		t.Errorf("doctor finds %q: %+v", bad, l.Check(t.Context(), s))
	}
	r := b.beginBy(t, l, s, launcher.Payload{})
	r.until("running", jobRuns)
	b.copied(t, r.id, "over there\n")
	if via, err := answers(t.Context(), l, r.id, launcher.Keeper); err != nil || !strings.Contains(via, "srun --overlap") {
		t.Errorf("by %q, %v", via, err)
	}
	b.down(t, l, r.id)
	r.ended(runstate.CodeInterrupted, "down", "")
	r.forgotten()
}
