//go:build linux

package slurm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/faults"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/once"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestTwoUsers: clusters of two users run on one node at the same time, each sees its own, and ends without the other. Commands that only read change nothing, and what
// waits ends at its limit although nobody watches. One of them attacks the other, and is sent no token.
func TestTwoUsers(t *testing.T) {
	pace.Parallel(t)
	needs.Root(t)
	program := rayctl(t)
	b := newBed(t, slurmtest.Options{Users: []string{"alice", "bob"}, Binds: []string{filepath.Dir(program)},
		Partitions: []slurmtest.Partition{{Name: "main", Default: true}, {Name: "closed", Extra: "State=DOWN"}}})
	alice := &user{bed: b.as("alice"), program: program}
	waits := alice.leavesWaiting(t, "waits", "30s")
	rests := alice.leavesWaiting(t, "rests", "2h")
	g := b.waitFile(t)
	count := "python -c " + shellescape.Quote(`import ray; ray.init(log_to_driver=False, logging_level="ERROR"); print(len(ray.nodes()))`)
	attack := b.attack(t, "bob", "alice")
	var runs []*watchedRun
	for _, name := range []string{"alice", "bob"} {
		of := b.as(name)
		s := of.named("same", g.wait()+"; "+count)
		s.Lifetime.Max = units.Limit(time.Hour)
		runs = append(runs, of.begin(t, s, launcher.Payload{}))
	}
	for _, r := range runs {
		r.until("running", jobRuns)
	}
	late := time.Now().Add(5 * time.Hour) // which Slurm does not let plain users have
	err := runs[0].l.Extended(t.Context(), "same", runstate.Deadlines{Max: &late})
	if launcher.ExitCode(err) != runstate.CodePermission || !strings.Contains(err.Error(), "scontrol update JobId=") || !strings.Contains(err.Error(), "Slurm still ends ") {
		t.Errorf("a deadline after Slurm's: %v", err)
	}
	t.Run("ReadsOnlyRead", func(t *testing.T) { alice.readsOnlyRead(t, rests) })
	t.Run("QueueUnwatched", func(t *testing.T) { alice.leavesQueue(t, waits) })
	g.create()
	for _, r := range runs {
		if r.ended(0, "succeeded", ""); r.out.String() != "1\n" {
			t.Errorf("output %q, want one node", r.out.String())
		}
		r.forgotten()
	}
	attack.End()
	if _, err := b.Slurm(t.Context(), "rm", "-r", "/run/mount"); err != nil { // which `mount` makes for reader
		t.Error(err)
	}
	b.leavesNothing(t)
}

// attack has a user attack another one's processes on the node that both share, from before their launch on (package hostileuser).
func (b *bed) attack(t *testing.T, attacker, victim string) *faults.Attack {
	t.Helper()
	id, err := b.Cluster.Command(t.Context(), victim, "id", "-u").Output()
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.Atoi(strings.TrimSpace(string(id)))
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.NodeCommand(t.Context(), "node1", attacker, "sh", append([]string{"-c", `exec python3 "$@"`, "sh"}, faults.AttackArguments(uid)...)...)
	if err != nil {
		t.Fatal(err)
	}
	return faults.StartAttack(t, c)
}

// rayctl builds the program, where all users may run it.
func rayctl(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for place := dir; place != os.TempDir() && place != "/"; place = filepath.Dir(place) {
		if err := os.Chmod(place, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "rayctl")
	if err := once.Program(t.Context(), once.Rayctl, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// user runs rayctl as a person does, beside the controller.
type user struct {
	*bed
	program string
}

func (u *user) rayctl(ctx context.Context, args ...string) *exec.Cmd {
	c := u.Cluster.Command(ctx, u.owner, u.program, args...)
	c.Env = append(c.Env, "XDG_RUNTIME_DIR="+u.Home(u.owner)) // like a login, for files shared by a user's rayctls
	return c
}

// reader is rayctl for the user, with slurm.dir mounted read-only: nobody can write there then, whatever its files permit. Everybody else writes as before.
func (u *user) reader(ctx context.Context, args ...string) *exec.Cmd {
	c := u.rayctl(ctx, args...)
	user := slices.Index(c.Args, "setpriv") // before it root is in the namespaces of the controller
	const mount = `mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"`
	c.Args = slices.Concat(c.Args[:user], []string{"unshare", "--mount", "--", "sh", "-c", mount, "sh", u.Dir()}, c.Args[user:])
	return c
}

// reads runs a command of rayctl that only reads, which must print these words, and returns what it prints.
func (u *user) reads(t *testing.T, want string, args ...string) string {
	t.Helper()
	c := u.reader(t.Context(), append(args, "--launcher", "slurm")...)
	if args[0] == "__complete" { // its last argument is the word to complete
		c = u.reader(t.Context(), slices.Insert(args, len(args)-1, "--launcher", "slurm")...)
	}
	var out, notes bytes.Buffer
	c.Stdout, c.Stderr = &out, &notes
	if err := c.Run(); err != nil || !strings.Contains(out.String(), want) {
		t.Errorf("rayctl %q: %v, printed %q, want %q; %s", args, err, out.String(), want, notes.String())
	}
	return out.String()
}

// readsOnlyRead: the commands that read work on a directory that cannot be written, change nothing in it, and send Slurm's controller nothing but queries and the steps
// by which they reach a node.
func (u *user) readsOnlyRead(t *testing.T, id string) {
	c := u.reader(t.Context(), "--version")
	c.Args[len(c.Args)-2], c.Args[len(c.Args)-1] = "touch", filepath.Join(u.Dir(), "new")
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "Read-only file system") {
		t.Fatalf("slurm.dir can be written: %v, %s", err, out)
	}
	before := contents(t, u.runDir("rests"))
	if len(before) == 0 {
		t.Fatal("the run has no files")
	}
	if err := u.ResetRequests(t.Context()); err != nil {
		t.Fatal(err)
	}
	u.reads(t, "same", "ls")
	u.reads(t, "rests", "ls", "-a", "--others", "-o", "json")
	u.reads(t, "Ready", "status", "same")
	u.reads(t, "Queued", "status", "rests")
	u.reads(t, "", "logs", "same")
	u.reads(t, "same-1", "jobs", "same")
	u.reads(t, "", "history")
	u.reads(t, ":", "__complete", "down", "") // a busy machine may not find the names within the time that pressing Tab may take
	u.reads(t, ":", "__complete", "logs", "")
	orders, err := u.Orders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(orders, func(kind string, _ int) bool { return strings.Contains(kind, "STEP") }) // an `srun` whose connections lead to the keeper
	if all, err := u.Requests(t.Context()); err != nil || len(orders) > 0 || all["REQUEST_JOB_INFO"]+all["REQUEST_JOB_USER_INFO"] == 0 {
		t.Errorf("to read has sent %v of %v, %v", orders, all, err)
	}
	if after := contents(t, u.runDir("rests")); !maps.Equal(before, after) {
		t.Errorf("to read has changed the run's directory:\n%v\n%v", before, after)
	}
	if state, err := u.Slurm(t.Context(), "squeue", "--noheader", "--states=all", "--jobs="+id, "--format=%T"); err != nil || state != "PENDING" {
		t.Errorf("to read has changed the job that waits: %q, %v", state, err)
	}
	u.removed(t, u.launcher(), "rests")
}

// leavesWaiting lets a job wait for so long at most in a partition that is closed, kills the client with SIGKILL, and returns the id of the job.
func (u *user) leavesWaiting(t *testing.T, name, limit string) string {
	t.Helper()
	c := u.rayctl(context.Background(), "run", "--launcher", "slurm", "--name", name, "--set", "ray.python="+u.python, "--set", "slurm.partition=closed",
		"--set", "job.restarts.preempted=0", "--queue-timeout", limit, "--set", "lifetime.max=1m", "--", "echo", "never")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var job string
	committed := filepath.Join(u.runDir(launcher.ID(name)), "1", "commit")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for job == "" && ctx.Err() == nil {
		if _, err := os.Stat(committed); err == nil {
			job, _ = u.Slurm(ctx, "squeue", "--noheader", "--name="+name, "--format=%i %T")
		}
	}
	err := c.Process.Kill()
	_ = c.Wait()
	id, waits := strings.CutSuffix(job, " PENDING")
	if err != nil || !waits || strings.Contains(out.String(), "lifetime.queue") {
		t.Fatalf("the job %q does not wait, or not as it should: %v, %s", job, err, out.String())
	}
	return id
}

// leavesQueue: Slurm itself withdraws the job when its time in the queue is over: nobody runs a command of rayctl. Then the commands that only read show the cause, and `gc`
// writes the result.
func (u *user) leavesQueue(t *testing.T, id string) {
	u.AwaitJob(t, id, "DEADLINE")
	result := filepath.Join(u.runDir("waits"), "1", "result.json")
	if _, err := os.Stat(result); err == nil {
		t.Error("somebody has written a result")
	}
	shows := func() {
		t.Helper()
		var s launcher.Status
		u.Await(t, "status to show the end", func(context.Context) (bool, error) { // it may use an answer of Slurm that is as old as the job was then
			err := json.Unmarshal([]byte(u.reads(t, "", "status", "waits", "-o", "json")), &s)
			return s.Exit != nil, err
		})
		if s.Exit.Cause != runstate.CauseQueue || s.Exit.Code != runstate.CodeQueueTimeout || !s.Exit.Retryable {
			t.Errorf("exit: %+v", s.Exit)
		}
		u.reads(t, "waits", "ls", "-a")
	}
	shows()
	if _, err := os.Stat(result); err == nil {
		t.Error("to read has written a result")
	}
	if out, err := u.rayctl(t.Context(), "gc", "--launcher", "slurm").CombinedOutput(); err != nil {
		t.Errorf("gc: %v, %s", err, out)
	}
	if _, err := os.Stat(result); err != nil {
		t.Errorf("gc has written no result: %v", err)
	}
	shows()
	if err := u.bed.launcher().Forget(t.Context(), "waits"); err != nil {
		t.Error(err)
	}
	u.nothingLeft(t, "waits")
}
