package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
	"github.com/rayctl/rayctl/local/proc"
	"github.com/rayctl/rayctl/test/faults"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/pace"
)

func TestFullDisk(t *testing.T) {
	pace.Parallel(t)
	needs.Root(t)
	state := t.TempDir()
	mount := exec.Command("mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "tmpfs", state)
	out, err := mount.CombinedOutput()
	needs.That(t, err == nil, "a file system of its own: %s", out)
	t.Cleanup(func() {
		if err := syscall.Unmount(state, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	_, err = at(t, state).Launch(within(t), oneNode(t, "x", ""), launcher.Payload{})
	wantError(t, err, runstate.CodeStartFailed, nil, "no space is left for "+state)
	wantError(t, at(t, state).Validate(within(t), oneNode(t, "x", ""), launcher.Payload{DryRun: true}), runstate.CodeStartFailed, nil, "no space is left for "+state)
	nothingLeft(t, state, "x")
}

// A head that rayctl did not make: gcs_server as Ray 2.60 starts it, played by a shell because only its command line counts.
func TestRayOfOthersIsListed(t *testing.T) {
	pace.Parallel(t)
	gcs := exec.Command("/bin/sh")
	gcs.Args = []string{"/opt/ray/core/src/ray/gcs/gcs_server", "-c", "read x", "--gcs_server_port=45123", "--node-ip-address=10.0.0.9", "--session-name=session_2026_other"}
	in, err := gcs.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := gcs.Start(); err != nil {
		t.Fatal(err)
	}
	defer gcs.Wait() // its exit code means nothing
	defer in.Close()
	all, err := at(t, t.TempDir()).List(within(t), launcher.Selector{Others: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Name == "session_2026_other" {
			if s.Ours || s.Head.Address != "10.0.0.9:45123" || s.Where == "" {
				t.Errorf("got %+v", s)
			}
			return
		}
	}
	t.Errorf("not listed: %+v", all)
}

// TestUp keeps a cluster without a job and works on it: mounts, endpoints, exec, labels; then gc finds what a crash left.
func TestUp(t *testing.T) {
	pace.Parallel(t)
	state, source := t.TempDir(), t.TempDir()
	l := at(t, state)
	link := filepath.Join(t.TempDir(), "mö unt")
	s := oneNode(t, "up", "")
	s.Labels = map[string]string{"team": "rl"}
	spill := filepath.Join(t.TempDir(), "spill ed")
	s.Env = map[string]string{"SAID": "a b", "OWN": "cluster's", "RAY_min_spilling_size": "1"} // the last is of Ray's system config
	s.Head.Env = map[string]string{"OWN": "head's"}
	s.Head.Labels = map[string]string{"zone": "a", "site.org/rack": "7"}
	s.Head.ObjectStoreMemory, s.Head.ObjectSpillingDirectory = resource.MustParse("100Mi"), spill
	s.Mounts = []spec.Mount{{MountPath: link, Source: spec.MountSource{Sections: localspec.SourceIn(source)}}}
	t.Cleanup(func() { terminate(t, l, "up") })
	if _, err := l.Launch(within(t), s, launcher.Payload{}); err != nil {
		t.Fatal(err)
	}
	if target, err := os.Readlink(link); err != nil || target != source {
		t.Errorf("mount: %q, %v", target, err)
	}
	if _, err := l.Dial(within(t), "up", launcher.Dashboard); err != nil {
		wantError(t, err, runstate.CodeUnreachable, launcher.ErrNotReady, "up")
	}
	ready := until(t, l, "up", func(st launcher.Status) bool { return st.Phase == runstate.Ready })
	if ready.Labels["team"] != "rl" || !strings.Contains(ready.Owner, "@") || !strings.HasPrefix(ready.Where, "pid ") {
		t.Errorf("status: %+v", ready)
	}
	e, err := l.Dial(within(t), "up", launcher.Dashboard)
	if err != nil || e.Token == "" || e.URL != ready.Head.Dashboard {
		t.Errorf("dial: %+v, %v", e, err)
	}
	var out bytes.Buffer
	code, err := l.Exec(within(t), "up", launcher.ExecRequest{Stdout: &out, Stderr: &out,
		Command: []string{"python", "-c", `import os, sys, ray; ray.init(); print(os.environ["SAID"], len(ray.nodes())); sys.exit(7)`}})
	if err != nil || code != 7 || !strings.Contains(out.String(), "a b 1\n") {
		t.Errorf("exec: %d, %v, %s", code, err, out.String())
	}
	out.Reset()
	if code, err := l.Exec(within(t), "up", launcher.ExecRequest{Stdout: &out, Stderr: &out, Command: []string{"python", "-c", nodeOptions, spill}}); err != nil || code != 0 {
		t.Errorf("options of the node: %d, %v, %s", code, err, out.String())
	}
	for team, want := range map[string]int{"rl": 1, "other": 0} {
		if got, err := l.List(within(t), launcher.Selector{Labels: map[string]string{"team": team}}); err != nil || len(got) != want {
			t.Errorf("list of team %s: %+v, %v", team, got, err)
		}
	}
	if _, err := l.Result(within(t), "up"); err == nil {
		t.Error("a living cluster has a result")
	}
	if err := os.MkdirAll(filepath.Join(state, "clusters", "crashed", "nodes"), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := l.Reconcile(within(t), launcher.Scope{})
	if err != nil || len(got) != 1 || got[0].Name != "crashed" {
		t.Errorf("collect: %+v, %v", got, err)
	}
	// Not even one whose record it cannot read.
	record := filepath.Join(state, "clusters", "up", "record.json")
	whole, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	for _, damage := range []func() error{func() error { return os.Truncate(record, int64(len(whole)/2)) }, func() error { return os.Remove(record) }} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if got, err := l.Reconcile(within(t), launcher.Scope{}); err == nil || len(got) != 0 {
			t.Errorf("collect with a damaged record: %+v, %v", got, err)
		}
		if err := os.WriteFile(record, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if len(processes(t, state, "up")) == 0 {
		t.Error("gc ended a living cluster")
	}
	terminate(t, l, "up")
	if left, err := os.ReadDir(spill); err != nil || len(left) > 0 {
		t.Errorf("left of spilled objects: %v, %v", left, err)
	}
}

// nodeOptions checks what the head of TestUp was started with: its labels, variables, object store, and where objects are spilled.
const nodeOptions = `
import glob, os, sys, ray
ray.init()
node = ray.nodes()[0]
assert node["Resources"]["object_store_memory"] == 100 << 20, node
labels = {k: v for k, v in node["Labels"].items() if not k.startswith("ray.io/")}
assert labels == {"zone": "a", "site.org/rack": "7", "rayctl.io/group": "head"}, labels

@ray.remote(label_selector={"zone": "a"})
def variables():
    return os.environ["OWN"], os.environ["SAID"], os.environ["RAY_min_spilling_size"]

assert ray.get(variables.remote()) == ("head's", "a b", "1")
kept = [ray.put(bytes(40 << 20)) for _ in range(4)]  # of which the store holds two
assert glob.glob(os.path.join(sys.argv[1], "r*", "ray_spilled_objects_*", "*")), os.listdir(sys.argv[1])
assert len(ray.get(kept[0])) == 40 << 20
`

// TestWorkerThatNeverRegisters is what a crowded machine does now and then: Ray's first driver (mostly the dashboard's Serve module)
// would wait for it for ever, and everybody else for that one. See RAY_prestart_worker_first_driver in keeper/rayctl_keeper/node/start/raystart.py.
func TestWorkerThatNeverRegisters(t *testing.T) {
	pace.Parallel(t)
	state, site := t.TempDir(), t.TempDir()
	l := at(t, state)
	hang := `import os, sys, time
if any("default_worker.py" in a for a in sys.orig_argv):
    try:
        os.mkdir(os.path.join(os.path.dirname(__file__), "hangs"))
        time.sleep(3600)
    except FileExistsError:
        pass
`
	ownHook := "import os\ndef mark(params, head):\n    os.mkdir(os.path.join(os.path.dirname(__file__), 'hook ran on %s' % params.node_name))\n"
	for name, text := range map[string]string{"sitecustomize.py": hang, "own_hook.py": ownHook} {
		if err := os.WriteFile(filepath.Join(site, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := oneNode(t, "slow", "")
	s.Env = map[string]string{"PYTHONPATH": site, "RAY_worker_register_timeout_seconds": "5", "RAY_START_HOOK": "own_hook.mark"}
	t.Cleanup(func() { terminate(t, l, "slow") })
	if _, err := l.Launch(within(t), s, launcher.Payload{}); err != nil {
		t.Fatal(err)
	}
	until(t, l, "slow", func(st launcher.Status) bool { return st.Phase == runstate.Ready })
	ask := `import os, ray, urllib.request
token = open(os.environ["RAY_AUTH_TOKEN_PATH"]).read().strip()
url = os.environ["RAY_API_SERVER_ADDRESS"] + "/api/serve/applications/"
urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": "Bearer " + token}), timeout=60).read()
ray.init()
print("got", ray.get(ray.remote(lambda: 41 + 1).remote()))
`
	var out bytes.Buffer
	code, err := l.Exec(within(t), "slow", launcher.ExecRequest{Stdout: &out, Stderr: &out, Command: []string{"python", "-c", ask}})
	if err != nil || code != 0 || !strings.Contains(out.String(), "got 42") {
		t.Errorf("exec: %d, %v, %s", code, err, out.String())
	}
	for _, made := range []string{"hangs", "hook ran on head-0"} { // a worker was held up; rayctl's hook of `ray start` does not replace the user's
		if _, err := os.Stat(filepath.Join(site, made)); err != nil {
			t.Error(err)
		}
	}
}

func TestOneClusterOfManyLaunches(t *testing.T) {
	pace.Parallel(t)
	state := t.TempDir()
	s := oneNode(t, "one", "")
	t.Cleanup(func() { terminate(t, at(t, state), "one") })
	var wg, all sync.WaitGroup
	var packed atomic.Int32
	all.Add(4)
	for range 4 {
		wg.Go(func() {
			l := at(t, state) // as other rayctls would
			all.Done()
			// Of the launch that makes the cluster, which takes until all have begun.
			pack := func(context.Context) (*launcher.Packages, error) {
				packed.Add(1)
				all.Wait()
				return &launcher.Packages{}, nil
			}
			if id, err := l.Launch(within(t), s, launcher.Payload{Packages: pack}); err != nil || id != "one" {
				t.Errorf("launch: %q, %v", id, err)
			}
		})
	}
	wg.Wait()
	if n := packed.Load(); n != 1 { // a keeper too many ends by itself, and is not seen below
		t.Errorf("%d launches made the cluster", n)
	}
	keepers := 0
	for _, p := range processes(t, state, "one") {
		if strings.Contains(proc.CommandLine(p), "keeper.pyz keeper") {
			keepers++
		}
	}
	if keepers != 1 {
		t.Errorf("%d keepers", keepers)
	}
	l := at(t, state)
	other := oneNode(t, "one", "")
	other.Head.CPUs = 7
	_, err := l.Launch(within(t), other, launcher.Payload{})
	wantError(t, err, runstate.CodeSpec, launcher.ErrConflict, "head.cpus: not set -> 7")
	if err := l.Forget(within(t), "one"); !errors.Is(err, launcher.ErrNotEnded) {
		t.Errorf("forget a living cluster: %v", err)
	}

	dirs := nodeDirs(t, state, "one")
	terminate(t, l, "one")
	nothingLeft(t, state, "one", dirs...)
	_, err = l.Launch(within(t), s, launcher.Payload{})
	wantError(t, err, runstate.CodeSpec, launcher.ErrEnded, "one")
	r, err := l.Result(within(t), "one")
	if err != nil || r.Exit.Cause != "down" || r.Exit.Code != runstate.CodeInterrupted {
		t.Errorf("result: %+v, %v", r, err)
	}
	if err := l.Forget(within(t), "one"); err != nil {
		t.Errorf("forget: %v", err)
	}
	_, err = l.Result(within(t), "one")
	wantError(t, err, runstate.CodeSpec, launcher.ErrNotFound, "one")
}

func TestNothingStaysWithoutCommit(t *testing.T) {
	pace.Parallel(t)
	boom := launcher.Fail(runstate.CodeSpec, nil, "", "cannot pack")
	for name, test := range map[string]struct {
		pack func(cancel func()) error
		code int
	}{
		"cancelled":      {func(cancel func()) error { cancel(); return context.Canceled }, runstate.CodeInterrupted},
		"packing failed": {func(func()) error { return boom }, runstate.CodeSpec},
	} {
		t.Run(name, func(t *testing.T) {
			pace.Parallel(t)
			state := t.TempDir()
			l := at(t, state)
			ctx, cancel := context.WithCancel(within(t))
			var dirs []string
			_, err := l.Launch(ctx, oneNode(t, "x", "true"), launcher.Payload{Packages: func(context.Context) (*launcher.Packages, error) {
				until(t, l, "x", func(launcher.Status) bool { dirs = nodeDirs(t, state, "x"); return len(dirs) > 0 })
				return nil, test.pack(cancel)
			}})
			wantError(t, err, test.code, nil, "")
			if len(dirs) == 0 {
				t.Error("no node had begun")
			}
			nothingLeft(t, state, "x", dirs...)
			if entries, err := os.ReadDir(filepath.Join(state, "clusters")); err != nil || len(entries) > 0 {
				t.Errorf("left: %v, %v", entries, err)
			}
		})
	}
}

// TestStuckKeeper: a keeper that does not answer is killed, and the supervisors save what it has not read of the output.
func TestStuckKeeper(t *testing.T) {
	pace.Parallel(t)
	state := t.TempDir()
	l := at(t, state)
	t.Cleanup(func() { terminate(t, l, "stuck") })
	dir := t.TempDir()
	s := oneNode(t, "stuck", fmt.Sprintf("cd %s; until test -e print; do sleep 0.1; done; echo not read; touch printed; exec sleep 3600", dir))
	if _, err := l.Launch(within(t), s, launcher.Payload{}); err != nil {
		t.Fatal(err)
	}
	var dirs []string
	until(t, l, "stuck", func(s launcher.Status) bool {
		dirs = nodeDirs(t, state, "stuck")
		return len(dirs) > 0 && s.Job != nil && s.Job.State == runstate.JobRunning
	})
	stuck := 0
	for _, p := range processes(t, state, "stuck") {
		if strings.Contains(proc.CommandLine(p), "keeper.pyz keeper") {
			if err := faults.Stop(p.PID); err != nil {
				t.Fatal(err)
			}
			stuck++
		}
	}
	if stuck != 1 || len(dirs) != 1 {
		t.Fatalf("%d keepers were stopped, of nodes in %q", stuck, dirs)
	}
	if err := os.WriteFile(filepath.Join(dir, "print"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for ctx := within(t); ; sleep.For(ctx, 100*time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "printed")); err == nil {
			break
		} else if ctx.Err() != nil {
			t.Fatal("the driver does not print")
		}
	}
	terminate(t, l, "stuck")
	nothingLeft(t, state, "stuck", dirs...)
	r, err := l.Result(within(t), "stuck")
	if err != nil || r.Exit.Cause != "down" {
		t.Fatalf("result: %+v, %v", r, err)
	}
	log, err := r.OpenLog(within(t), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if out, err := io.ReadAll(log); err != nil || !strings.HasSuffix(string(out), "not read\n") || len(r.Log.Missing) > 0 {
		t.Errorf("what the keeper did not read: %q, %v, %+v", out, err, r.Log)
	}
}

func TestRun(t *testing.T) {
	// Spaces, quotes and other scripts in the paths of run directories; and a TMPDIR too long for sockets.
	state := filepath.Join(t.TempDir(), "état 'x' $(echo) 運行", strings.Repeat("long", 20))
	t.Setenv("TMPDIR", t.TempDir())
	l := at(t, state)
	story(t, state, "first")
	t.Cleanup(func() { terminate(t, l, "first") })
	s := oneNode(t, "first", `python -c 'import ray, os; ray.init(); print("hello", os.environ["TOP"], len(ray.nodes())); open(os.environ["RAYCTL_OUTPUT_DIR"] + "/x", "w").write("1")'; exit 3`)
	s.Secrets = []spec.Secret{{Name: "TOP"}}
	var out bytes.Buffer
	var phases []string
	oc, err := launcher.Run(within(t), l, s, launcher.Payload{Secrets: map[string]string{"TOP": "s3cret $x"}}, launcher.RunOptions{
		Stdout: &out, OnStatus: func(st launcher.Status) {
			if n := len(phases); n == 0 || phases[n-1] != string(st.Phase) {
				phases = append(phases, string(st.Phase))
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"Starting", "Ready", "Draining", "Gone"}; !slices.Equal(slices.DeleteFunc(slices.Clone(phases), func(p string) bool { return p == "Provisioning" }), want) {
		t.Errorf("phases: %v", phases)
	}
	if e := oc.Receipt.Exit; e.Code != 3 || e.Origin != "driver" {
		t.Errorf("exit: %+v", e)
	}
	if !strings.Contains(out.String(), "hello s3cret $x 1\n") {
		t.Errorf("printed %q", out.String())
	}
	nothingLeft(t, state, "first")
	left, err := os.ReadDir(filepath.Join(state, "clusters", "first"))
	if err != nil || len(left) == 0 {
		t.Errorf("its directory: %v, %v", left, err)
	}
	for _, file := range left {
		if keeper.IsSecret(file.Name()) {
			t.Errorf("%s is still there", file.Name())
		}
	}
}

// story shows what the keeper did if the test fails.
func story(t *testing.T, state, name string) {
	t.Cleanup(func() {
		if t.Failed() {
			b, err := os.ReadFile(filepath.Join(state, "clusters", name, "keeper.log"))
			t.Logf("keeper.log (%v):\n%s", err, b)
		}
	})
}
