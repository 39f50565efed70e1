package keeper_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/raytest"
)

func TestMain(m *testing.M) {
	pace.AtOnce("1") // beside the launchers' tests: two starts of Ray at once are too slow for Ray's own limits where the machine is busy
	raytest.Main(m)
}

// patience is enough for a machine on which everything takes ten times as long.
const patience = 5 * time.Minute

// rig is one keeper with its run directory.
type rig struct {
	t      *testing.T
	dir    keeper.RunDir
	orders *keeper.Orders
	token  string
	zip    string   // the keeper's program
	wrap   []string // before the keeper's command
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	exited chan struct{}
}

func ptr[T any](v T) *T { return &v }

// newRig prepares a cluster of one node with one job; shape changes the orders before they are written.
func newRig(t *testing.T, entrypoint string, shape func(*keeper.Orders)) *rig {
	t.Helper()
	python := raytest.Env(t, raytest.Ray260)
	nonce := make([]byte, 4)
	rand.Read(nonce)
	r := &rig{t: t, token: keeper.NewToken(), exited: make(chan struct{})}
	r.orders = &keeper.Orders{
		Version: keeper.Version, Name: "t-" + hex.EncodeToString(nonce), Attempt: 1, Launcher: "test", SpecHash: "hash",
		Ray: keeper.RaySettings{Python: python, Version: raytest.Ray260, TempRoot: "/tmp", FastStart: "always"},
		Groups: []keeper.Group{
			{Name: "head", Count: 1, CPUs: ptr(2.0), GPUs: ptr(0.0), ObjectStoreMemory: ptr(int64(100e6))},
		},
		Start: keeper.Start{Mode: keeper.StartSpawn}, Listen: "127.0.0.1:0", Advertise: "127.0.0.1", DashboardHost: "127.0.0.1",
		WatchStdin: true,
		Lifetime:   keeper.Lifetime{Lease: patience.Seconds(), Start: patience.Seconds()},
	}
	if entrypoint != "" {
		r.orders.Job = &keeper.Job{Entrypoint: entrypoint, SubmissionPrefix: "job", Grace: 20, OutputDir: "/nowhere"}
	}
	if shape != nil {
		shape(r.orders)
	}
	var err error
	r.zip, err = keeperzip.Write(t.TempDir())
	r.must(err)
	r.dir = keeper.RunDir(filepath.Join(t.TempDir(), "run"))
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// rayToken is the token of the present head.
func (r *rig) rayToken() string {
	r.t.Helper()
	st, err := r.dir.State()
	r.must(err)
	token, _, err := r.dir.RayToken(st.Head)
	r.must(err)
	return token
}

// start runs the keeper. At the test's end it ends the keeper and checks that nothing is left.
func (r *rig) start(secrets map[string]string) *rig {
	r.t.Helper()
	r.must(r.dir.Prepare(r.orders, r.token, secrets))
	r.exec()
	r.t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = r.cmd.Process.Signal(syscall.SIGTERM)
		}
		r.wait()
		if r.t.Failed() {
			r.t.Logf("keeper.log:\n%s", r.story())
		}
		r.nothingLeft()
	})
	return r
}

func (r *rig) exec() {
	r.t.Helper()
	argv := append(slices.Clone(r.wrap), raytest.Env(r.t, raytest.Ray260), "-S", "-E", r.zip, keeperzip.Keeper, string(r.dir))
	r.cmd = exec.Command(argv[0], argv[1:]...)
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var err error
	r.stdin, err = r.cmd.StdinPipe()
	r.must(err)
	r.must(r.cmd.Start())
	exited, cmd := make(chan struct{}), r.cmd
	r.exited = exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
}

// commit commits the launch.
func (r *rig) commit(c keeper.Commit) {
	r.t.Helper()
	r.must(r.dir.Commit(c))
	r.must(r.stdin.Close())
}

func (r *rig) wait() {
	r.t.Helper()
	select {
	case <-r.exited:
	case <-time.After(patience):
		r.t.Fatalf("the keeper does not end:\n%s", r.story())
	}
}

// result waits for the end and returns the final document.
func (r *rig) result() *runstate.State {
	r.t.Helper()
	r.wait()
	state, err := r.dir.Result()
	r.must(err)
	return state
}

// story returns the end of keeper.log, for failure messages.
func (r *rig) story() string {
	text, err := os.ReadFile(filepath.Join(string(r.dir), keeper.KeeperLog))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

// eventually waits until check returns true.
func (r *rig) eventually(what string, check func() bool) {
	r.t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatalf("%s: not within %v\n%s", what, patience, r.story())
		}
	}
}

// state waits until the keeper's document satisfies check, by its API.
func (r *rig) state(what string, check func(*runstate.State) bool) *runstate.State {
	r.t.Helper()
	r.eventually("state.json", func() bool {
		s, err := r.dir.State()
		return err == nil && s.Keeper.URL != ""
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for s, err := range r.client().Watch(ctx) {
		if err == nil && check(s) {
			return s
		}
		if err == nil && s.Exit != nil {
			r.t.Fatalf("%s: it ended: %+v", what, s.Exit)
		}
	}
	r.t.Fatalf("%s: not within %v\n%s", what, patience, r.story())
	return nil
}

func (r *rig) client() *keeper.Client {
	s, err := r.dir.State()
	r.must(err)
	c := keeper.NewClient(keeper.Endpoint{URL: s.Keeper.URL, Token: r.token})
	r.t.Cleanup(c.Close)
	return c
}

func (r *rig) log() string {
	r.t.Helper()
	reader, err := r.dir.OpenLog(0, 0)
	r.must(err)
	defer reader.Close()
	text, err := io.ReadAll(reader)
	r.must(err)
	return string(text)
}

// processes of the cluster: keeper, supervisors, and every process with one of its node directories in the environment.
func (r *rig) processes() []string {
	entries, err := os.ReadDir("/proc")
	r.must(err)
	var found []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		env, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		args, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		mine := bytes.Contains(args, []byte(r.dir)) || bytes.Contains(env, []byte("RAY_AUTH_TOKEN_PATH="+string(r.dir)+"/"))
		if mine && len(args) > 0 {
			found = append(found, e.Name()+" "+strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return found
}

// directories of the cluster's nodes.
func (r *rig) directories() []string {
	var found []string
	for _, group := range r.orders.Groups {
		for i := range group.Count {
			report := struct {
				Directory string `json:"directory"`
			}{}
			text, err := os.ReadFile(filepath.Join(string(r.dir), "nodes", group.Name+"-"+strconv.Itoa(i), "report.json"))
			if err == nil && unmarshal(text, &report) == nil && report.Directory != "" {
				if _, err := os.Stat(report.Directory); err == nil {
					found = append(found, report.Directory)
				}
			}
		}
	}
	return found
}

func (r *rig) nothingLeft() {
	r.t.Helper()
	r.eventually("no process is left", func() bool { return len(r.processes()) == 0 })
	r.eventually("no node directory is left", func() bool { return len(r.directories()) == 0 })
}

// kill sends SIGKILL to processes.
func (r *rig) kill(pids ...int) {
	r.t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			r.t.Fatal(err)
		}
	}
}

// pidOf finds a process of the cluster by a part of its command line.
func (r *rig) pidOf(part string) int {
	r.t.Helper()
	for _, line := range r.processes() {
		number, args, _ := strings.Cut(line, " ")
		if strings.Contains(args, part) {
			pid, err := strconv.Atoi(number)
			r.must(err)
			return pid
		}
	}
	r.t.Fatalf("no process has %q in its command line", part)
	return 0
}

func ready(s *runstate.State) bool { return s.Phase == runstate.Ready }

func running(s *runstate.State) bool { return s.Job != nil && s.Job.State == runstate.JobRunning }

// elastic is a cluster of a head without CPUs and a group of so many nodes at least and at most.
func elastic(least, most int) func(*keeper.Orders) {
	return func(o *keeper.Orders) {
		o.Launcher = "local" // what the head has of memory, further nodes have, too
		o.Groups[0].CPUs = ptr(0.0)
		o.Groups = append(o.Groups, keeper.Group{
			Name: "w", Count: least, Max: most, CPUs: ptr(1.0), GPUs: ptr(0.0), ObjectStoreMemory: ptr(int64(100e6)),
		})
		o.Scaling = &keeper.Scaling{Idle: 600, UpscalingSpeed: 1}
	}
}

// more are the allocations of nodes above the required ones.
func more(s *runstate.State) []runstate.Allocation {
	return runstate.Of(s.Allocations, runstate.PurposeElastic)
}

func hold(nodes int) string {
	return `python -c '
import ray, time
ray.init(log_to_driver=False)
@ray.remote(num_cpus=1, memory=1 << 20, max_restarts=-1)
class Holder:
    def here(self): return True
holders = [Holder.remote() for _ in range(` + strconv.Itoa(nodes) + `)]
time.sleep(100000)'`
}

// alive waits until a node is alive in Ray that is started by another supervisor than this one.
func (r *rig) alive(name string, other int) runstate.Node {
	r.t.Helper()
	var found runstate.Node
	r.state(name+" is alive", func(s *runstate.State) bool {
		for _, n := range s.Nodes {
			if n.Name == name && n.State == runstate.NodeAlive && n.PID != 0 && n.PID != other {
				found = n
			}
		}
		return found.Name != ""
	})
	return found
}

func mount(t *testing.T, dir, options string) {
	t.Helper()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
}

// noHead is a cluster whose head is never reached: for what a keeper does before Ray is there.
func noHead(o *keeper.Orders) {
	o.Start = keeper.Start{Mode: keeper.StartExternal, Dashboard: "http://127.0.0.1:9", GCS: "127.0.0.1:9"}
	o.WatchStdin = false
}

func unmarshal(text []byte, into any) error { return json.Unmarshal(text, into) }

func aboutHead(e runstate.Event) bool { return e.Kind == "head" }

// noted reports whether the timeline has an event with that code and words.
func noted(s *runstate.State, code, words string) bool {
	return slices.ContainsFunc(s.Timeline, func(e runstate.Event) bool { return e.Code == code && strings.Contains(e.Message, words) })
}
