//go:build linux

package slurm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/raytest"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestPartitions: limits of partitions, on a site that lets a job wait rather than refuse it (EnforcePartLimits=NO); and what jobs have of their users.
func TestPartitions(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t, slurmtest.Options{
		Nodes: 2, Binds: []string{filepath.Dir(filepath.Dir(raytest.Env(t, raytest.Ray240)))},
		// main goes first, so that the reason of a job in both is what keeps it from running in the other.
		Partitions: []slurmtest.Partition{{Name: "main", Default: true, Extra: "PriorityTier=2"}, {Name: "one", Extra: "MaxNodes=1"}, {Name: "short", Extra: "MaxTime=5"}},
		Settings:   map[string]string{"EnforcePartLimits": "NO"},
	})
	t.Run("AtTimeLimit", b.atTimeLimit)
	t.Run("DrainedNodes", b.drainedNodes)
	t.Run("UsersEnvironment", b.usersEnvironment)
	t.Run("InsideJob", b.insideJob)
	t.Run("InsideHeterogeneous", b.insideHeterogeneous)
	t.Run("OldRay", b.oldRay)
	t.Run("NodeFails", b.nodeFailsForGood)
	b.leavesNothing(t)
}

// atTimeLimit: lifetime.max may be all that the partition gives: the job's limit has nothing for the end then, as it has elsewhere, and the run ends so much before it.
func (b *bed) atTimeLimit(t *testing.T) {
	g := b.waitFile(t)
	s := b.inPartition("all-of-it", "short", `echo "$RAYCTL_ENDS_AT"; `+g.wait(), 1)
	s.Lifetime.Max = units.Limit(5 * time.Minute)
	ofJob := func(name, field string) string {
		out, err := b.Slurm(t.Context(), "squeue", "--noheader", "--name="+name, "--format="+field)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	r := b.begin(t, s, launcher.Payload{})
	r.until("running", jobRuns)
	if limit := ofJob("all-of-it", "%l"); limit != "5:00" {
		t.Errorf("Slurm's limit of the job is %q", limit)
	}
	end, err := time.ParseInLocation("2006-01-02T15:04:05", ofJob("all-of-it", "%e"), time.Local) // the bed's Slurm has this machine's
	if err != nil {
		t.Fatal(err)
	}
	g.create()
	r.ended(0, "succeeded", "")
	seconds, err := strconv.ParseInt(strings.TrimSpace(r.out.String()), 10, 64)
	if before := end.Sub(time.Unix(seconds, 0)); err != nil || before < 30*time.Second || before > 2*time.Minute {
		t.Errorf("the driver was told to end %s before Slurm ends its job; %q, %v", before, r.out.String(), err)
	}
	r.forgotten()
	other := b.inPartition("with-an-end", "main", "exec sleep 600", 1)
	other.Lifetime.Max = s.Lifetime.Max
	long := b.begin(t, other, launcher.Payload{})
	long.until("submitted", func(s launcher.Status) bool { return strings.HasPrefix(s.Where, "job ") })
	if limit := ofJob("with-an-end", "%l"); limit != "9:00" { // the default grace, script.EndSlack, and two minutes
		t.Errorf("Slurm's limit of a job whose partition gives more is %q", limit)
	}
	b.down(t, long.l, long.id)
	long.ended(runstate.CodeInterrupted, "down", "")
	long.forgotten()
}

// inPartition is a run of so many whole nodes.
func (b *bed) inPartition(name, partition, entrypoint string, nodes int) *spec.ClusterSpec {
	s, exclusive := b.named(name, entrypoint), true
	s.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Partition: partition, Exclusive: &exclusive}})
	s.Head, s.Workers = spec.Head{}, []spec.WorkerGroup{{Name: "w", Replicas: &nodes, NodeResources: smallNode()}}
	return s
}

// drainedNodes: Slurm has one reason, PartitionNodeLimit, for a job that may run when nodes are in service again, and for one that never can.
func (b *bed) drainedNodes(t *testing.T) {
	node := func(state string) {
		t.Helper()
		if _, err := b.Slurm(t.Context(), "scontrol", "update", "NodeName=node2", "State="+state, "Reason=test"); err != nil {
			t.Error(err)
		}
	}
	node("DRAIN")
	r := b.begin(t, b.inPartition("patient", "main,one", "echo both", 2), launcher.Payload{})
	// Slurm's reason is that of the partition at which it has looked last: its main scheduler and the backfill one take turns, so the other one's comes and goes.
	waits := r.until("waiting for the drained node", func(s launcher.Status) bool { return s.Reason.Code == "PartitionNodeLimit" })
	if waits.Due != nil || !strings.Contains(waits.Reason.Message, "in service") {
		t.Errorf("status %+v", waits)
	}
	never := b.begin(t, b.inPartition("too-many", "one", "echo never", 2), launcher.Payload{})
	never.ended(runstate.CodeStartFailed, "start-failed", "it asks for 2 nodes, and a job may have 1 in partition one")
	never.forgotten()
	if out, err := b.Slurm(t.Context(), "squeue", "--noheader", "--name=patient", "--format=%T"); err != nil || out != "PENDING" {
		t.Errorf("the other's job is %q, %v", out, err)
	}
	b.down(t, r.l, r.id)
	r.ended(runstate.CodeInterrupted, "down", "")
	r.forgotten()
	node("RESUME")
}

// usersEnvironment: drivers have the umask of who submits, so that a team reads what they write, and the variables that are kept. setup, which needs one of these,
// brings Python, and doctor tries it in the same way; as the cluster may get many nodes, its GCS has settings for them. What rayctl writes is for the user alone. (The proxies do not answer: whatever of rayctl or Ray used them would fail.)
func (b *bed) usersEnvironment(t *testing.T) {
	user := *b
	user.Prefix = slices.Concat(b.Prefix, []string{"sh", "-c", `umask 0027; exec "$@"`, "sh"})
	user.Env = append(slices.Clone(b.Env), "KRB5CCNAME=FILE:/tmp/krb5cc_me", "http_proxy=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9", "SITE_LICENCE=27000@a b'c", "OTHER=x")
	keep := []string{"SITE_LICENCE", "NOT_SET"}
	l := slurm.New(slurm.Config{Runner: user.beside, Dir: b.Dir(), Keep: keep})
	defer l.Close()
	s := user.named("shared", `umask; echo "$KRB5CCNAME $https_proxy $SITE_LICENCE ${OTHER-gone} ${NOT_SET-unset}"; echo 1 > $RAYCTL_OUTPUT_DIR/model
		for pid in $(pgrep -x gcs_server); do tr '\0' '\n' </proc/$pid/environ; done | sort -u | grep -E '^RAY_(gcs_server_request_timeout_seconds|worker_register_timeout_seconds)='`)
	s.Ray.Python, s.Setup = b.pythonOfSetup(t)
	s.Env = map[string]string{"RAY_worker_register_timeout_seconds": "99"} // the user's own
	none, many := 0, burst-1
	s.Workers = []spec.WorkerGroup{{Name: "w", MinReplicas: &none, Replicas: &none, MaxReplicas: &many, NodeResources: smallNode()}}
	if bad := failing(l.Check(t.Context(), s)); len(bad) == 0 {
		t.Error("doctor finds nothing wrong with a setup that lacks a variable")
	}
	s.Sections = slurmspec.In(&slurmspec.Section{KeepEnv: keep})
	if bad := failing(l.Check(t.Context(), s)); len(bad) > 0 {
		t.Errorf("doctor finds %q", bad)
	}
	s.Job.OutputDir = filepath.Join(b.Cluster.Dir, "shared", "team", "models")
	r := user.beginBy(t, l, s, launcher.Payload{})
	r.ended(0, "succeeded", "")
	if want := "0027\nFILE:/tmp/krb5cc_me http://127.0.0.1:9 27000@a b'c gone unset\n" +
		"RAY_gcs_server_request_timeout_seconds=120\nRAY_worker_register_timeout_seconds=99\n"; r.out.String() != want {
		t.Errorf("output %q, want %q", r.out.String(), want)
	}
	for path, want := range map[string]os.FileMode{filepath.Dir(s.Job.OutputDir): 0o750, s.Job.OutputDir: 0o750, filepath.Join(s.Job.OutputDir, "model"): 0o640} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", path, info, err, want)
		}
	}
	if left := r.outcome.Receipt.OutputDir; left != s.Job.OutputDir {
		t.Errorf("the receipt has output in %q", left)
	}
	var found bytes.Buffer
	code, err := l.ExecOnHost(t.Context(), launcher.ExecRequest{Command: []string{"ls", s.Job.OutputDir}, Stdout: &found})
	if code != 0 || err != nil || found.String() != "model\n" {
		t.Errorf("the results: code %d, %v, %q", code, err, found.String())
	}
	err = filepath.WalkDir(b.runDir(r.id), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 && filepath.Base(path) != "slurm.out" {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	r.forgotten()
}

// pythonOfSetup is a Python with Ray that only setup puts into the PATH, and only where the job has what the user keeps.
func (b *bed) pythonOfSetup(t *testing.T) (python, setup string) {
	t.Helper()
	dir := filepath.Join(b.Cluster.Dir, "shared", "of-setup")
	program := "#!/bin/sh\nexec " + b.python + ` "$@"` + "\n"
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "python-of-setup"), []byte(program), 0o755)); err != nil {
		t.Fatal(err)
	}
	return "python-of-setup", `[ "$SITE_LICENCE" ]; export PATH=` + dir + ":$PATH"
}

// burst is from how many nodes on a GCS has settings for many (MANY in keeper/rayctl_keeper/node/start/burst.py).
const burst = 32

// insideJob: who calls rayctl in a job of another kind, with what that job and he himself have set for Slurm's commands, gets a job of its own.
func (b *bed) insideJob(t *testing.T) {
	file := filepath.Join(b.Cluster.Dir, "shared", "outer")
	outer, err := b.Submit(t.Context(), "env > "+file+".part; mv "+file+".part "+file+"; exec sleep 600", "--ntasks=1", "--mem=100", "--partition=short", "--time=2")
	if err != nil {
		t.Fatal(err)
	}
	b.awaitFile(t, file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	user := *b
	user.Env = append(slices.Clone(b.Env), "SBATCH_PARTITION=nosuch", "SBATCH_JOB_NAME=outer", "SLURM_CLUSTERS=nosuch", "SLURM_HINT=nosuch", "SRUN_CPUS_PER_TASK=99")
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "SLURM") && !strings.HasPrefix(line, "SLURM_CONF=") {
			user.Env = append(user.Env, strings.TrimSuffix(line, "\n"))
		}
	}
	l := slurm.New(slurm.Config{Runner: user.beside, Dir: b.Dir()})
	defer l.Close()
	g := b.waitFile(t)
	s := user.named("inner", "echo inner; "+g.wait())
	if bad := failing(l.Check(t.Context(), s)); len(bad) > 0 {
		t.Errorf("doctor finds %q: %+v", bad, l.Check(t.Context(), s))
	}
	r := user.beginBy(t, l, s, launcher.Payload{})
	st := r.until("running", jobRuns)
	if st.Where == "job "+outer {
		t.Errorf("it runs in the job from which it was called")
	}
	if out, err := b.Slurm(t.Context(), "squeue", "--noheader", "--name=inner", "--format=%P %C"); err != nil || out != "main 1" {
		t.Errorf("partition and CPUs are %q, %v", out, err)
	}
	if via, err := answers(t.Context(), l, r.id, launcher.Keeper); err != nil {
		t.Errorf("by %q, %v", via, err)
	}
	g.create()
	r.ended(0, "succeeded", "")
	r.forgotten()
	if _, err := b.Slurm(t.Context(), "scancel", outer); err != nil {
		t.Error(err)
	}
}

// insideHeterogeneous: an allocation whose parts are unlike is not used, which a launch and doctor report.
func (b *bed) insideHeterogeneous(t *testing.T) {
	outer, err := b.Submit(t.Context(), "#SBATCH --ntasks=1 --mem=100\n#SBATCH hetjob\n#SBATCH --ntasks=2 --mem=100\nexec sleep 600")
	if err != nil {
		t.Fatal(err)
	}
	b.Await(t, "job "+outer+" to run", func(ctx context.Context) (bool, error) {
		out, err := b.Slurm(ctx, "squeue", "--noheader", "--jobs="+outer, "--format=%T")
		return strings.Fields(out + " -")[0] == "RUNNING", err
	})
	l := slurm.New(slurm.Config{Runner: b.beside, Dir: b.Dir(), Getenv: func(name string) string { return map[string]string{slurmspec.Around: outer}[name] }})
	defer l.Close()
	s := b.named("unlike", "echo never")
	s.Sections = slurmspec.In(&slurmspec.Section{Job: slurmspec.CurrentJob})
	const want = "is heterogeneous, and slurm.job: current cannot use such a job"
	if _, err := l.Launch(t.Context(), s, launcher.Payload{}); launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), want) {
		t.Errorf("the launch: %v (code %d)", err, launcher.ExitCode(err))
	}
	if checks := l.Check(t.Context(), s); !slices.Contains(failing(checks), "request") || !strings.Contains(checks[len(checks)-1].Detail, want) {
		t.Errorf("doctor: %+v", checks)
	}
	b.nothingLeft(t, "unlike")
	if _, err := b.Slurm(t.Context(), "scancel", outer); err != nil {
		t.Error(err)
	}
}

// oldRay: a cluster of one node with a real Ray that has no tokens runs, reports who can connect to it, and no process of it listens for other hosts.
func (b *bed) oldRay(t *testing.T) {
	s := b.named("old-ray", "python -c "+shellescape.Quote(openListeners))
	s.Ray = spec.Ray{Python: raytest.Env(t, raytest.Ray240), Version: raytest.Ray240}
	var warned []string
	r := b.begin(t, s, launcher.Payload{Warn: func(text string) { warned = append(warned, text) }})
	r.ended(0, "succeeded", "")
	if want := fmt.Sprintf("%s True []\n", raytest.Ray240); r.out.String() != want {
		t.Errorf("output %q, want %q", r.out.String(), want)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "Ray "+raytest.Ray240+" has no tokens") || !strings.Contains(warned[0], "loopback") {
		t.Errorf("the launch warns %q", warned)
	}
	r.forgotten()
}

// openListeners prints Ray's version and which of its processes listen on an address that is not loopback.
const openListeners = `import glob, os, ray
ray.init(log_to_driver=False, logging_level="ERROR")
local = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")
listens = {}
for table in ("/proc/net/tcp", "/proc/net/tcp6"):
    for row in open(table).read().splitlines()[1:]:
        words = row.split()
        if words[3] == "0A":
            listens["socket:[%s]" % words[9]] = words[1]
ours, opened = 0, []
for fd in glob.glob("/proc/[0-9]*/fd/*"):
    try:
        socket, process = os.readlink(fd), "/".join(fd.split("/")[:3])
        if socket in listens and b"RAYCTL_NODE_DIR=" in open(process + "/environ", "rb").read():
            ours += 1
            if not listens[socket].startswith(tuple(a + ":" for a in local)):
                opened.append("%s of %s" % (listens[socket], open(process + "/cmdline").read().replace("\\0", " ")[:60]))
    except OSError:
        pass
print(ray.__version__, ours > 3, sorted(opened))
`

// nodeFailsForGood: a run that preemption alone may restart ends with its node where nothing preempts, even if no client watches: it is not queued again only
// to be ended then.
func (b *bed) nodeFailsForGood(t *testing.T) {
	l := b.launcher()
	id, err := l.Launch(t.Context(), b.inPartition("for-good", "main", "exec sleep 600", 1), launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	st := watchUntil(t, l, id, jobRuns)
	job := strings.TrimPrefix(st.Where, "job ")
	b.Await(t, "the job to run once", func(ctx context.Context) (bool, error) {
		out, err := b.Slurm(ctx, "scontrol", "show", "job", job)
		return strings.Contains(out, "Requeue=0 "), err
	})
	if out, err := b.Slurm(t.Context(), "scontrol", "requeue", job); err == nil {
		t.Errorf("scontrol requeue is not refused: %s", out)
	}
	defer b.powerOffHost(t, st.Nodes[0].Host)()
	b.AwaitJob(t, job, "NODE_FAIL")
	r, err := l.Result(t.Context(), id)
	if err != nil || r.Exit.Cause != runstate.CauseLost || r.Exit.Code != runstate.CodeLost {
		t.Errorf("result %+v, %v", r, err)
	}
	if over := watchUntil(t, l, id, isGone); over.Attempt != 1 {
		t.Errorf("status %+v", over)
	}
	b.down(t, l, id)
	if err := l.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
}
