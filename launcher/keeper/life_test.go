package keeper_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/leak"
)

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

const hostile = "a b'c\"d $(touch /tmp/x) `id` \\ ;& é\nsecond line"

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
