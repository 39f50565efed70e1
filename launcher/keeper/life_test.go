package keeper_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/leak"
	"github.com/rayctl/rayctl/test/needs"
)

func unmarshal(text []byte, into any) error { return json.Unmarshal(text, into) }

const hostile = "a b'c\"d $(touch /tmp/x) `id` \\ ;& é\nsecond line"

// driver is one program for all attempts: exit code 3, two ways to die by a signal, then success.
const driver = `
echo "attempt $RAYCTL_ATTEMPT of $RAYCTL_RUN because '$RAYCTL_RESTART_REASON' as $RAYCTL_SUBMISSION_ID"
case $RAYCTL_ATTEMPT in
1) exit 3;;
2) python -c 'import os; os.kill(os.getpid(), 9)'; exit $?;;
3) kill -SEGV $$;;
esac
python - <<'END'
import os, sys, ray
print("HOSTILE", repr(os.environ["HOSTILE"]))
print("HOME", os.environ["HOME"], "HOOK", os.environ.get("RAY_START_HOOK"), os.environ.get("PYTHONPATH"), os.environ.get("SLURM_JOB_ID"))
print("DRIVER", os.environ["S3CRET"] == "hunter" + "2-5f1c77b1")
ray.init()
@ray.remote
class A:
    def look(self): return os.environ["S3CRET"] == "hunter" + "2-5f1c77b1"
print("ACTOR", ray.get(A.remote().look.remote()))
sys.stdout.flush()
sys.stdout.buffer.write(b"x" * 10_000_000 + b"\r\n\xff\x00\xfe\r\nend\n")
END
`

// One cluster covers a normal life: restarts of the driver with each kind of exit, its environment, secrets, and log.
func TestDriversLife(t *testing.T) {
	t.Setenv("SLURM_JOB_ID", "") // so that Ray counts CPUs and GPUs itself
	t.Setenv("RAY_ADDRESS", "10.0.0.1:1")
	r := newRig(t, driver, func(o *keeper.Orders) {
		o.Job.Env = map[string]string{"HOSTILE": hostile}
		o.Job.Restarts.Driver = 3
		o.Job.Cwd = t.TempDir()
		o.Ray.Setup = "export FROM_SETUP=1; ulimit -n 4096"
	}).start(map[string]string{"S3CRET": "hunter2-5f1c77b1"})
	r.commit(keeper.Commit{RuntimeEnv: json.RawMessage(`{"env_vars": {"A": "b"}}`)})
	s := r.state("the driver runs", running)
	if s.Head.RayVersion == "" || s.Head.Session == "" || !s.Head.Token || s.Nodes[0].State != "ALIVE" || s.Groups[0].Ready != 1 {
		t.Errorf("state of a running cluster: %+v", s)
	}
	for _, line := range r.processes() {
		for _, value := range []string{"hunter2-5f1c77b1", r.token, r.rayToken()} {
			if how := leak.Find([]byte(line), value); how != "" {
				t.Errorf("a secret is in a command line, %s: %s", how, line)
			}
		}
	}
	s = r.result()
	if s.Exit.Cause != runstate.CauseSucceeded || s.Exit.Code != 0 || s.Exit.Origin != runstate.OriginDriver || s.Phase != runstate.Gone {
		t.Errorf("exit: %+v", s.Exit)
	}
	var codes []int
	for _, a := range s.Attempts {
		if a.ExitCode == nil {
			t.Fatalf("attempt without exit code: %+v", a)
		}
		codes = append(codes, *a.ExitCode)
	}
	if len(codes) != 4 || codes[0] != 3 || codes[1] != 137 || codes[2] != 139 || codes[3] != 0 {
		t.Errorf("exit codes of the attempts: %v", codes)
	}
	checkDriverLog(t, r, s)
	noSecretsLeft(t, r, "hunter2-5f1c77b1")
}

func checkDriverLog(t *testing.T, r *rig, s *runstate.State) {
	t.Helper()
	first, err := os.ReadFile(filepath.Join(string(r.dir), "driver-1.log"))
	r.must(err)
	if want := "attempt 1 of " + s.Name + " because '' as job-1\n"; !strings.Contains(string(first), want) {
		t.Errorf("driver-1.log lacks %q; it has %.1500q", want, first)
	}
	log := r.log()
	for _, want := range []string{
		"attempt 4 of " + s.Name + " because 'driver-failed' as job-4\n",
		`HOSTILE 'a b\'c"d $(touch /tmp/x) ` + "`id`" + ` \\ ;& é\nsecond line'`, "HOME " + os.Getenv("HOME") + " HOOK None None None\n",
		"DRIVER True\n", "ACTOR True\n", strings.Repeat("x", 10_000_000) + "\r\n\xff\x00\xfe\r\nend\n",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("driver.log lacks %.100q; it has %.1500q", want, log)
		}
	}
	if s.Log.Bytes != int64(len(log)) || len(s.Log.Missing) != 0 {
		t.Errorf("log: %+v, but driver.log has %d bytes", s.Log, len(log))
	}
}

// noSecretsLeft searches everything that outlives the cluster for the secret.
func noSecretsLeft(t *testing.T, r *rig, secret string) {
	t.Helper()
	err := filepath.WalkDir(string(r.dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		text, err := os.ReadFile(path)
		for _, value := range []string{secret, r.token} {
			if how := leak.Find(text, value); how != "" {
				t.Errorf("a secret is in %s, %s", path, how)
			}
		}
		return err
	})
	r.must(err)
}

// A driver that needs seconds for its checkpoint gets them; without a limit it knows of no end beforehand, and an end that somebody asks for drains nothing. A worker that `ray start` gave up at first is there. The second of two
// keepers in one directory exits at once.
func TestInterruptAndRetriedWorker(t *testing.T) {
	t.Parallel()
	entrypoint := `trap 'echo saving; sleep 5; echo "jobs $(ray job list 2>/dev/null | grep -c "[-]drain-")"; echo saved; exit 0' TERM
echo "up, ends $RAYCTL_ENDS_AT."; while :; do sleep 0.1; done`
	r := newRig(t, entrypoint, func(o *keeper.Orders) {
		o.Job.Grace = 120
		o.Groups = append(o.Groups, keeper.Group{Name: "w", Count: 1, CPUs: ptr(1.0), GPUs: ptr(0.0), ObjectStoreMemory: ptr(int64(100e6)),
			Labels: map[string]string{"zone": "a"}, Resources: map[string]float64{"rollout": 1}})
		// The worker's first try has too few file descriptors: `ray start` itself fails.
		o.Ray.Setup = `if [ -n "$FLAG" ] && [ ! -e "$FLAG" ]; then touch "$FLAG"; ulimit -n 8; fi`
		o.Groups[1].Env = map[string]string{"FLAG": filepath.Join(t.TempDir(), "flag")}
	}).start(nil)
	r.commit(keeper.Commit{})
	s := r.state("the driver runs", running)
	if len(s.Nodes) != 2 || s.Nodes[1].State != "ALIVE" || s.Groups[1].Ready != 1 {
		t.Errorf("nodes: %+v", s.Nodes)
	}
	r.eventually("the trap is set", func() bool { return strings.Contains(r.log(), "up, ends .\n") })
	first, exited := r.cmd, r.exited
	r.exec()
	r.wait()
	if code := r.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("a second keeper ended with %d", code)
	}
	r.cmd, r.exited = first, exited
	_, err := r.client().End(context.Background(), keeper.End{Cause: runstate.CauseInterrupted, By: "me@here"})
	r.must(err)
	s = r.result()
	if s.Exit.Cause != runstate.CauseInterrupted || s.Exit.Code != 130 || s.Exit.By != "me@here" {
		t.Errorf("exit: %+v", s.Exit)
	}
	if log := r.log(); !strings.HasSuffix(log, "saving\njobs 0\nsaved\n") {
		t.Errorf("the driver's checkpoint is cut: %q", log)
	}
}

func TestClientDiesBeforeCommit(t *testing.T) {
	t.Parallel()
	r := newRig(t, "true", nil).start(nil)
	r.eventually("Ray is starting", func() bool { return len(r.directories()) == 1 })
	r.must(r.stdin.Close())
	if s := r.result(); s.Exit.Cause != runstate.CauseAbandoned {
		t.Errorf("exit: %+v", s.Exit)
	}
}

func TestStartFailures(t *testing.T) {
	t.Parallel()
	bare := filepath.Join(t.TempDir(), "python")                                                        // without any packages
	if err := os.WriteFile(bare, []byte("#!/bin/sh\nexec python3 -S -E \"$@\"\n"), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		shape func(*keeper.Orders)
		want  string
	}{
		"setup":  {func(o *keeper.Orders) { o.Ray.Setup = "echo fine; echo 'no scratch disk' >&2; false" }, "setup on node head-0 exited with code 1: no scratch disk"},
		"python": {func(o *keeper.Orders) { o.Ray.Python = "/nonexistent/python" }, "No such file or directory: '/nonexistent/python'"},
		"no Ray": {func(o *keeper.Orders) { o.Ray.Python = bare }, "ray start on node head-0 exited with code 1: ModuleNotFoundError: No module named 'ray'"},
		"long":   {func(o *keeper.Orders) { o.Ray.TempRoot = "/nonexistent/directory" }, "No such file or directory: '/nonexistent/directory"},
		"limit":  {func(o *keeper.Orders) { o.Lifetime.Start = 0.5 }, "Ray was not up within"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "true", c.shape).start(nil)
			s := r.result()
			if s.Exit.Cause != runstate.CauseStartFailed || s.Exit.Code != 73 || !strings.Contains(s.Exit.Message, c.want) {
				t.Errorf("exit: %+v, want %q", s.Exit, c.want)
			}
		})
	}
}

// The run directory's disk fills up while the driver writes: lost ranges are reported, the result is written, nothing is left.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	needs.Root(t)
	r := newRig(t, `head -c 8000000 /dev/zero | tr '\0' y`, nil)
	mount(t, filepath.Dir(string(r.dir)), "size=4m")
	r.start(nil)
	r.commit(keeper.Commit{})
	s := r.result()
	if s.Exit.Cause != runstate.CauseSucceeded {
		t.Errorf("exit: %+v", s.Exit)
	}
	if s.Log.Bytes < 8_000_000 || len(s.Log.Missing) == 0 {
		t.Errorf("log: %+v", s.Log)
	}
}

// Two clusters without a job run side by side. One ends when idle, but not before its submitted job. The other ends when its client disconnects.
func TestIdleAndDisconnect(t *testing.T) {
	t.Parallel()
	idle := newRig(t, "", func(o *keeper.Orders) { o.Lifetime.Idle = 1000; o.Lifetime.Max = 100000 }).start(nil)
	left := newRig(t, "", func(o *keeper.Orders) { o.Lifetime.Disconnect = 1000 }).start(nil)
	idle.commit(keeper.Commit{})
	left.commit(keeper.Commit{})
	s := idle.state("ready", ready)
	if s.Deadlines.Max == nil {
		t.Errorf("deadlines: %+v", s.Deadlines)
	}
	other := left.state("ready", ready)
	if other.EndOnDisconnect != 1000 || other.Head.Address == s.Head.Address || other.Head.Dashboard == s.Head.Dashboard {
		t.Errorf("the other cluster: %+v", other)
	}
	ctx := context.Background()
	r := left.client()
	left.must(r.Renew(ctx))
	now, err := r.Disconnect(ctx, 2*time.Second)
	left.must(err)
	if now.EndOnDisconnect != 2 || now.LastRenewal == nil {
		t.Errorf("after renew and disconnect: %+v", now)
	}
	if s := left.result(); s.Exit.Cause != runstate.CauseDisconnected || s.Exit.Code != 130 {
		t.Errorf("exit: %+v", s.Exit)
	}
	_, err = idle.client().Extend(ctx, keeper.Extend{Max: ptr(60.0), Later: true})
	if err == nil || !strings.Contains(err.Error(), "the cluster would then end earlier than at present: lifetime.max leaves it 1d3h4") {
		t.Errorf("a limit that would shorten: %v", err)
	}
	limit := func(e keeper.Extend) time.Time {
		t.Helper()
		s, err := idle.client().Extend(ctx, e)
		idle.must(err)
		return *s.Deadlines.Max
	}
	before := *s.Deadlines.Max
	if moved := limit(keeper.Extend{MaxBy: ptr(3600.0)}).Sub(before).Round(time.Second); moved != time.Hour {
		t.Errorf("by an hour: %s", moved)
	}
	if moved := limit(keeper.Extend{Max: ptr(900000.0), AtMost: true}).Sub(before).Round(time.Second); moved != time.Hour {
		t.Errorf("at most a later time: %s", moved)
	}
	if !limit(keeper.Extend{Max: ptr(50000.0), AtMost: true}).Before(before) {
		t.Error("at most an earlier time: nothing was changed")
	}
	idle.submit(s, "sleep 6")
	idle.state("the submission is shown", func(s *runstate.State) bool {
		return len(s.Submissions) == 1 && s.Submissions[0].State == runstate.JobRunning && s.Submissions[0].Entrypoint == "sleep 6" && s.Submissions[0].Start != nil
	})
	_, err = idle.client().Extend(ctx, keeper.Extend{Idle: ptr(2.0)})
	idle.must(err)
	s = idle.result()
	if s.Exit.Cause != runstate.CauseIdle || s.Exit.Code != 0 {
		t.Errorf("exit: %+v", s.Exit)
	}
	_, err = left.dir.Token()
	rays, failed := filepath.Glob(filepath.Join(string(left.dir), keeper.RayTokenPrefix+"*"))
	if !errors.Is(err, fs.ErrNotExist) || len(rays) > 0 || failed != nil {
		t.Errorf("the tokens are still there: %v, %v, %v", err, rays, failed)
	}
}
