//go:build linux

package slurm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/raytest"
	"github.com/rayctl/rayctl/test/slurmtest"
)

func TestMain(m *testing.M) {
	if task := os.Getenv(dyingClientVariable); task != "" {
		dyingClientMain(task)
	}
	pace.AtOnce("4") // testbeds run side by side
	conformance.Main(m, func(setting string) launcher.Launcher {
		var b beside
		if err := json.Unmarshal([]byte(setting), &b); err != nil {
			panic(err)
		}
		return launcherOf(b)
	})
}

// made are this process's launchers of each testbed: what they run on the site is ended before leaks are looked for.
var made = struct {
	sync.Mutex
	of map[string][]*slurm.Launcher
}{of: map[string][]*slurm.Launcher{}}

func launcherOf(b beside) *slurm.Launcher {
	l := slurm.New(slurm.Config{Runner: b, Dir: b.Dir})
	made.Lock()
	defer made.Unlock()
	made.of[b.Bed] = append(made.of[b.Bed], l)
	return l
}

// beside runs commands next to a testbed's controller, also from the client processes that the suite starts and kills.
type beside struct {
	Bed    string   // the testbed's directory: testbeds run at the same time
	Prefix []string // enters the cluster
	Env    []string
	Dir    string // slurm.dir
}

func (b beside) Command(ctx context.Context, argv ...string) *exec.Cmd {
	full := append(append([]string{}, b.Prefix...), argv...)
	cmd := exec.CommandContext(ctx, full[0], full[1:]...)
	cmd.Env = b.Env
	return cmd
}

func (b beside) String() string { return "the testbed" }

func (b beside) setting(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// bed is a real Slurm whose nodes have Ray, with what tests ask it and do to it.
type bed struct {
	*slurmtest.Cluster
	beside
	python   string
	python36 string   // which is too old for rayctl
	rays     []string // directories with Ray and its Python
	owner    string   // whose clusters these are; "": there is only one user
}

// newBed starts a testbed whose nodes have real Ray.
func newBed(t *testing.T, o slurmtest.Options) *bed {
	t.Helper()
	python := raytest.Env(t, raytest.Ray260)
	base, err := filepath.EvalSymlinks(python)
	if err != nil {
		t.Fatal(err)
	}
	var rays []string
	for _, interpreter := range []string{python, base} {
		rays = append(rays, filepath.Dir(filepath.Dir(interpreter)))
	}
	o.Binds = append(o.Binds, rays...)
	python36 := needs.Python36(t, python)
	o.Binds = append(o.Binds, filepath.Dir(filepath.Dir(python36)))
	c := slurmtest.Start(t, o)
	cmd := c.Command(context.Background(), "", "true")
	b := beside{Bed: c.Dir, Prefix: cmd.Args[:len(cmd.Args)-1], Env: cmd.Env, Dir: c.Dir + "/shared/rayctl"}
	return &bed{Cluster: c, beside: b, python: python, python36: python36, rays: rays}
}

// as is the bed for another user, with slurm.dir in the user's home.
func (b *bed) as(user string) *bed {
	of, cmd := *b, b.Cluster.Command(context.Background(), user, "true")
	of.owner = user
	of.beside = beside{Bed: b.Bed, Prefix: cmd.Args[:len(cmd.Args)-1], Env: cmd.Env, Dir: b.Home(user) + "/.rayctl"}
	return &of
}

func (b *bed) spec() *spec.ClusterSpec {
	return &spec.ClusterSpec{Ray: spec.Ray{Python: b.python}, Head: spec.Head{NodeResources: smallNode()}}
}

func smallNode() spec.NodeResources {
	return spec.NodeResources{CPUs: 1, Memory: resource.MustParse("1Gi")}
}

func (b *bed) twoGroups() *spec.ClusterSpec {
	second := smallNode()
	second.CPUs, second.Resources = 2, map[string]float64{"b": 1}
	return &spec.ClusterSpec{Ray: spec.Ray{Python: b.python}, Workers: []spec.WorkerGroup{{Name: "a", NodeResources: smallNode()}, {Name: "b", NodeResources: second}}}
}

// alone is of a node that has processes of its own, as each of the bed, and no other job.
func (b *bed) alone() *spec.ClusterSpec {
	s, whole := b.spec(), true
	s.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Exclusive: &whole}})
	return s
}

func (b *bed) gpuNodes() *spec.ClusterSpec {
	node, two := smallNode(), 2
	node.GPUs = 2
	return &spec.ClusterSpec{Ray: spec.Ray{Python: b.python}, Workers: []spec.WorkerGroup{{Name: "gpu", Replicas: &two, NodeResources: node}}}
}

// leavesNothing ends what this process's launchers run on the site, and checks that it is all.
func (b *bed) leavesNothing(t *testing.T) {
	t.Helper()
	made.Lock()
	ours := made.of[b.Bed]
	delete(made.of, b.Bed)
	made.Unlock()
	for _, l := range ours {
		l.Close()
	}
	b.RequireClean(t)
}

func (b *bed) config(t *testing.T) conformance.Config {
	return conformance.Config{
		Setting: b.setting(t), Spec: b.spec, TwoGroups: b.twoGroups, GPUNodes: b.gpuNodes, Alone: b.alone, Allocated: b.allocated, KillKeeper: b.killKeeper, KillHead: b.killHead, KeeperLog: true, Hold: b.hold,
		FreezeDashboard: b.freezeDashboard, Elastic: true, HoldWorkers: b.holdWorkers, PacksFirst: true,
		Surfaces: b.surfaces, Story: b.story, Occupy: b.closePartition, Patience: patience,
		Without: map[string]string{
			"name service away for a minute":  "keeper and nodes find each other by addresses",
			"client killed before the commit": "TestFaults/DeadClient kills one after sbatch, which comes after the packing",
		},
		Elsewhere: map[string]string{
			"early head": "TestEarly/Queued", "prepare fails": "TestEarly/PrepareFails", "queue limit": "TestSlurm/Queue",
			// The keeper's and Ray's, which are the same on local.
			"runtime environment that fails": "local", "dashboard frozen for a minute": "local", "interrupt twice": "TestCtrlCTwice", "idle": "local", "end on disconnect": "local",
			"prepare is interrupted": "local", "prepare hangs": "local", "prepare, then the driver": "local", "drivers that fail, and restarts": "local", "driver that fails because its node is lost": "local",
			"clients killed after the commit": "local", "interrupt with a checkpoint": "local",
			"two clusters side by side": "local", "setup fails": "local", "detach, then logs, status and result": "local",
			"elastic group":         "TestElastic/Queued",
			"early head and driver": "TestEarly/Elastic; a driver beside an early head: local",
			"head killed":           "TestElastic/Queued and TestEarly/RequeuedAgain; that a further one ends the run: local",
			"warned of the end":     "TestSlurm/Conformance/TimeLimit; by lifetime.max: local",
		},
	}
}

// patience is for loaded machines: a start of Ray alone may take minutes there.
const patience = 6 * time.Minute

func (b *bed) runDir(id launcher.ID) string { return filepath.Join(b.Dir(), "runs", string(id)) }

// Dir is slurm.dir.
func (b *bed) Dir() string { return b.beside.Dir }

// allocated reads from Slurm and the nodes, not from the launcher, what the cluster holds.
func (b *bed) allocated(t *testing.T, id launcher.ID) []string {
	t.Helper()
	ask := []string{"--noheader", "--format=%j job %i %T"}
	if b.owner != "" {
		ask = append(ask, "--user="+b.owner)
	}
	out, err := b.Slurm(context.Background(), "squeue", ask...)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for line := range strings.SplitSeq(out, "\n") {
		name, job, _ := strings.Cut(line, " ")
		if name == string(id) || strings.HasPrefix(name, string(id)+"-elastic-") || strings.HasPrefix(name, string(id)+"-workers-") { // its companions
			left = append(left, job)
		}
	}
	for _, p := range b.processes(t, id) {
		left = append(left, "process "+p.Command)
	}
	if len(left) == 0 && b.ended(id) {
		files, _ := filepath.Glob(filepath.Join(b.runDir(id), "*", "*"))
		left = append(left, slices.DeleteFunc(files, func(path string) bool { return !keeper.IsSecret(filepath.Base(path)) })...)
	}
	return append(left, b.directories(t, id)...)
}

func (b *bed) ended(id launcher.ID) bool {
	found, _ := filepath.Glob(filepath.Join(b.runDir(id), "*", keeper.ResultFile))
	return len(found) > 0
}

// processes are those on the nodes that name the run's directory in their command line or environment.
func (b *bed) processes(t *testing.T, id launcher.ID) (out []slurmtest.Process) {
	t.Helper()
	for i := range b.Options.Nodes {
		all, err := b.Processes("node" + strconv.Itoa(i+1))
		if err != nil {
			continue // switched off
		}
		for _, p := range all {
			environ, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "environ")) // gone meanwhile: nothing
			text := p.Command + " \x00" + string(environ)
			if strings.Contains(text, b.runDir(id)+"/") || strings.Contains(text, b.runDir(id)+" ") || strings.Contains(text, b.runDir(id)+"\x00") {
				out = append(out, p)
			}
		}
	}
	return out
}

// nodeStarted is a line of keeper.log.
var nodeStarted = regexp.MustCompile(`(?m) node \S+ starting on (\S+) in (\S+)`)

// directories are the nodes' temporary directories that are still there.
func (b *bed) directories(t *testing.T, id launcher.ID) (out []string) {
	t.Helper()
	logs, _ := filepath.Glob(filepath.Join(b.runDir(id), "*", "keeper.log"))
	var text []byte
	for _, name := range logs {
		log, _ := os.ReadFile(name)
		text = append(text, log...)
	}
	for _, told := range nodeStarted.FindAllStringSubmatch(string(text), -1) {
		host, directory := told[1], told[2]
		files, err := b.Files(host)
		if err != nil {
			continue // switched off
		}
		for _, f := range files {
			if f == directory {
				out = append(out, host+": directory "+f)
			}
		}
	}
	return out
}

func (b *bed) story(_ *testing.T, id launcher.ID) string {
	var text strings.Builder
	for _, pattern := range []string{"slurm.sh", "slurm.out", "*/keeper.log", "*/nodes/*/start.log", "*/nodes/*/companion.*.out"} {
		names, _ := filepath.Glob(filepath.Join(b.runDir(id), pattern))
		for _, name := range names {
			content, _ := os.ReadFile(name)
			text.WriteString("--- " + name + "\n" + string(content[max(0, len(content)-4000):]) + "\n")
		}
	}
	return text.String()
}

// surfaces is every file of the run's directory but those that hold secrets, what Slurm keeps and shows of the job, and the command
// lines of all processes.
func (b *bed) surfaces(t *testing.T, id launcher.ID) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, root := range []string{b.runDir(id), b.Cluster.Dir + "/state", b.Cluster.Dir + "/spool", b.Cluster.Dir + "/log"} {
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && !keeper.IsSecret(d.Name()) {
				out[path], _ = os.ReadFile(path) // what vanished meanwhile is empty
			}
			return nil
		})
	}
	if shown, err := b.Slurm(t.Context(), "scontrol", "show", "job", "--details"); err == nil {
		out["scontrol show job"] = []byte(shown)
	}
	for _, p := range append(b.processes(t, id), b.own()...) {
		out["command line of "+strconv.Itoa(p.PID)] = []byte(p.Command)
	}
	return out
}

// own are the processes next to the controller, rayctl's sruns among them.
func (b *bed) own() []slurmtest.Process {
	found, _ := b.Processes("ctl")
	return found
}

func (b *bed) launcher() *slurm.Launcher {
	return launcherOf(b.beside)
}

func (b *bed) named(name, entrypoint string) *spec.ClusterSpec {
	s := b.spec()
	s.Name, s.Job.Entrypoint = name, entrypoint
	return s
}

// nothingLeft checks that neither Slurm nor slurm.dir has anything of this name.
func (b *bed) nothingLeft(t *testing.T, name string) {
	t.Helper()
	if left := b.allocated(t, launcher.ID(name)); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if _, err := os.Stat(b.runDir(launcher.ID(name))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory is left: %v", err)
	}
}

// watchUntil watches until a status meets the condition, and returns it.
func watchUntil(t *testing.T, l launcher.Launcher, id launcher.ID, cond func(launcher.Status) bool) launcher.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	statuses, err := l.Watch(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	var last launcher.Status
	for s := range statuses {
		if last = s; cond(s) {
			return s
		}
	}
	t.Fatalf("never seen; the last status: %+v", last)
	return last
}

func isGone(s launcher.Status) bool { return s.Phase == runstate.Gone }

func (b *bed) down(t *testing.T, l launcher.Launcher, id launcher.ID) {
	t.Helper()
	if err := l.Terminate(t.Context(), id, launcher.End{Cause: "down", Message: "ended by the test"}); err != nil {
		t.Error(err)
	}
}

func (b *bed) scancel(t *testing.T, id launcher.ID) {
	t.Helper()
	if _, err := b.Slurm(t.Context(), "scancel", "--name="+string(id)); err != nil {
		t.Error(err)
	}
}

// watchedRun is a launcher.Run whose statuses and output a test waits for.
type watchedRun struct {
	*bed
	t        *testing.T
	l        *slurm.Launcher
	id       launcher.ID
	statuses chan launcher.Status
	done     chan struct{}

	// After done:
	out     bytes.Buffer
	outcome *launcher.Outcome
	err     error
}

// begin starts a run. What it leaves is looked for when it has ended.
func (b *bed) begin(t *testing.T, s *spec.ClusterSpec, p launcher.Payload) *watchedRun {
	t.Helper()
	return b.beginBy(t, b.launcher(), s, p)
}

// beginBy starts a run by a launcher.
func (b *bed) beginBy(t *testing.T, l *slurm.Launcher, s *spec.ClusterSpec, p launcher.Payload) *watchedRun {
	t.Helper()
	r := &watchedRun{bed: b, t: t, l: l, id: launcher.ID(s.Name), statuses: make(chan launcher.Status, 1000), done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	go func() {
		defer close(r.done)
		r.outcome, r.err = launcher.Run(ctx, r.l, s, p, launcher.RunOptions{Stdout: &r.out, OnStatus: func(s launcher.Status) { r.statuses <- s }})
	}()
	return r
}

// until waits for a status that was not seen before.
func (r *watchedRun) until(what string, cond func(launcher.Status) bool) launcher.Status {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	var last launcher.Status
	for {
		select {
		case last = <-r.statuses:
			if cond(last) {
				return last
			}
		case <-r.done:
			r.t.Fatalf("it ended before it was %s: %v, %+v\n%s", what, r.err, r.outcome, r.story(r.t, r.id))
		case <-ctx.Done():
			r.t.Fatalf("never %s; the last status: %+v\n%s", what, last, r.story(r.t, r.id))
		}
	}
}

func jobRuns(s launcher.Status) bool { return s.Job != nil && s.Job.State == runstate.JobRunning }

// ended waits for the end and checks it: the exit code, its cause, one sentence with these words, and that nothing but one record is left.
func (r *watchedRun) ended(code int, cause, words string) *launcher.Receipt {
	r.t.Helper()
	<-r.done
	if r.err != nil {
		r.t.Fatalf("%v\n%s", r.err, r.story(r.t, r.id))
	}
	e := r.outcome.Receipt.Exit
	if e.Code != code || e.Cause != cause || !strings.Contains(e.Message, words) || strings.Contains(e.Message, "\n") {
		r.t.Errorf("exit: %+v, want code %d, %s: %s\n%s", e, code, cause, words, r.story(r.t, r.id))
	}
	if left := r.allocated(r.t, r.id); len(left) > 0 {
		r.t.Errorf("left: %q", left)
	}
	for _, private := range []string{"seed", "*/token", "*/ray-token.*", "*/secrets.json", "*/package-*", "*/.reserve", "*/*.tmp", "*.part*"} {
		if found, _ := filepath.Glob(filepath.Join(r.runDir(r.id), private)); len(found) > 0 {
			r.t.Errorf("left in the record: %q", found)
		}
	}
	return r.outcome.Receipt
}

// forgotten removes the record.
func (r *watchedRun) forgotten() {
	r.t.Helper()
	if err := r.l.Forget(context.Background(), r.id); err != nil {
		r.t.Error(err)
	}
	r.nothingLeft(r.t, string(r.id))
}

// waitFile is a file for which a driver waits until the test creates it.
type waitFile struct {
	t    *testing.T
	path string
}

func (b *bed) waitFile(t *testing.T) waitFile {
	return waitFile{t, filepath.Join(b.Cluster.Dir, "shared", strings.ReplaceAll(t.Name(), "/", "-"))}
}

// wait is the shell command of the driver. A client of NFS believes that a name is not there until it lists the directory.
func (g waitFile) wait() string {
	// Its errors go nowhere: a shell whose `sleep` got Slurm's signal first writes "Terminated" before it dies, too.
	return "{ until ls " + filepath.Dir(g.path) + " >/dev/null && [ -e " + g.path + " ]; do sleep 0.2; done; } 2>/dev/null"
}

func (g waitFile) create() {
	g.t.Helper()
	if err := os.WriteFile(g.path, nil, 0o644); err != nil {
		g.t.Fatal(err)
	}
}

func (b *bed) killKeeper(t *testing.T, id launcher.ID) {
	t.Helper()
	b.kill(t, id, func(command string) bool { return strings.Contains(command, "keeper.pyz slurm-start") })
}

func (b *bed) hold(t *testing.T) (string, func(*testing.T, launcher.ID)) {
	t.Helper()
	g := b.waitFile(t)
	return g.wait(), func(*testing.T, launcher.ID) { g.create() }
}

func (b *bed) killHead(t *testing.T, id launcher.ID) {
	t.Helper()
	b.kill(t, id, func(command string) bool { return strings.Contains(command, "gcs_server") })
}

// freezeDashboard stops the process that serves HTTP; Ray's other processes go on.
func (b *bed) freezeDashboard(t *testing.T, id launcher.ID) func() {
	t.Helper()
	dashboard := func(command string) bool { return strings.Contains(command, "dashboard/dashboard.py") }
	b.signal(t, id, syscall.SIGSTOP, dashboard)
	return func() { b.signal(t, id, syscall.SIGCONT, dashboard) }
}

func (b *bed) kill(t *testing.T, id launcher.ID, match func(string) bool) {
	t.Helper()
	b.signal(t, id, syscall.SIGKILL, match)
}

func (b *bed) signal(t *testing.T, id launcher.ID, number syscall.Signal, match func(string) bool) {
	t.Helper()
	hit := 0
	for _, p := range b.processes(t, id) {
		if match(p.Command) {
			if err := syscall.Kill(p.PID, number); err != nil {
				t.Errorf("signal %d to %d: %v", number, p.PID, err)
			}
			hit++
		}
	}
	if hit != 1 {
		t.Errorf("%d processes got signal %d, not one", hit, number)
	}
}

// closePartition lets nothing start. Other scenarios run at the same time: to occupy all nodes would have to wait for them.
func (b *bed) closePartition(t *testing.T) func() {
	t.Helper()
	set := func(state string) {
		if _, err := b.Slurm(context.Background(), "scontrol", "update", "PartitionName=main", "State="+state); err != nil {
			t.Error(err)
		}
	}
	set("DOWN")
	return func() { set("UP") }
}

// holdWorkers lets them wait in a partition of their own, which is down.
func (b *bed) holdWorkers(t *testing.T, s *spec.ClusterSpec) func() {
	t.Helper()
	partition := s.Name + "-workers"
	scontrol := func(args ...string) {
		if _, err := b.Slurm(context.Background(), "scontrol", args...); err != nil {
			t.Error(err)
		}
	}
	scontrol("create", "PartitionName="+partition, "Nodes=ALL", "State=DOWN")
	t.Cleanup(func() { scontrol("delete", "PartitionName="+partition) })
	for i := range s.Workers {
		s.Workers[i].Sections = slurmspec.GroupIn(&slurmspec.Group{Partition: partition})
	}
	return func() { scontrol("update", "PartitionName="+partition, "State=UP") }
}

// occupy takes all nodes.
func (b *bed) occupy(t *testing.T) func() {
	t.Helper()
	id, err := b.Submit(t.Context(), "sleep 1000", "--exclusive", "--nodes="+strconv.Itoa(b.Options.Nodes))
	if err != nil {
		t.Fatal(err)
	}
	b.AwaitJob(t, id, "RUNNING")
	return func() {
		if _, err := b.Slurm(context.Background(), "scancel", id); err != nil {
			t.Error(err)
		}
	}
}

// copied waits until the keeper's copy of an attempt's output has this.
func (b *bed) copied(t *testing.T, id launcher.ID, text string) {
	t.Helper()
	b.Await(t, "the output "+text, func(context.Context) (bool, error) {
		logs, err := filepath.Glob(filepath.Join(b.runDir(id), "*", "driver*.log"))
		for _, name := range logs {
			log, err := os.ReadFile(name) // one that is put aside meanwhile is found by its new name
			if err == nil && strings.Contains(string(log), text) {
				return true, nil
			}
		}
		return false, err
	})
}

// dyingClient names the environment variable that makes this test binary a client which dies between sbatch's answer and the commit.
const dyingClientVariable = "RAYCTL_SLURM_TEST_DYING_CLIENT"

// dying is the site as that client sees it: whoever gets sbatch's answer is dead.
type dying struct{ beside }

func (d dying) Command(ctx context.Context, argv ...string) *exec.Cmd {
	for _, word := range argv {
		if word == "sbatch" {
			return d.beside.Command(ctx, append([]string{"sh", "-c", `"$@" >&2; kill -9 ` + strconv.Itoa(os.Getpid()), "sh"}, argv...)...)
		}
	}
	return d.beside.Command(ctx, argv...)
}

// dyingClientMain launches a cluster; it does not return.
func dyingClientMain(setting string) {
	var task struct {
		Beside beside
		Spec   *spec.ClusterSpec
		Offers launcher.ID // what this cluster's keeper offers is submitted, instead of a launch
	}
	if err := json.Unmarshal([]byte(setting), &task); err != nil {
		panic(err)
	}
	l := slurm.New(slurm.Config{Runner: dying{task.Beside}, Dir: task.Beside.Dir})
	if task.Offers != "" {
		launcher.SubmitOffers(context.Background(), l, task.Offers, slog.Default())
		panic("it lives")
	}
	_, err := l.Launch(context.Background(), task.Spec, launcher.Payload{Secrets: map[string]string{"WORD": "swordfish"}})
	panic(err)
}

// clientDies runs a client that is killed when sbatch has submitted.
func (b *bed) clientDies(t *testing.T, task map[string]any) {
	t.Helper()
	setting, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	client := exec.Command(exe, "-test.run=^$")
	client.Env = append(os.Environ(), dyingClientVariable+"="+string(setting))
	if out, err := client.CombinedOutput(); client.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the client was not killed: %v\n%s", err, out)
	}
}

func (b *bed) ssh(t *testing.T, options ...string) *slurm.Launcher {
	t.Helper()
	ssh, err := remote.NewSSH("login", options)
	if err != nil {
		t.Fatal(err)
	}
	ssh.Config = b.Login.Config
	l := slurm.New(slurm.Config{Runner: ssh, Dir: b.Dir()})
	t.Cleanup(func() {
		l.Close()
		if err := ssh.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// smallDisk makes a file system that a test can fill.
func smallDisk(t *testing.T) string {
	t.Helper()
	needs.Root(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=3m,mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// at is the testbed with another slurm.dir.
func (b *bed) at(dir string) *bed {
	other := *b
	other.beside.Dir = dir
	return &other
}

// early is a cluster of two unlike groups, whose head is early, in the partition that stays open when main is closed.
func (b *bed) early(name, prepare, entrypoint string) *spec.ClusterSpec {
	s := b.twoGroups()
	s.Name, s.Job.Prepare, s.Job.Entrypoint = name, prepare, entrypoint
	s.Head = spec.Head{Early: true, NodeResources: smallNode()}
	s.Head.Sections = slurmspec.GroupIn(&slurmspec.Group{Partition: "high"})
	return s
}

// allocation is the newest one of a purpose; of none, one without a state.
func allocation(s launcher.Status, purpose string) (found runstate.Allocation) {
	if all := runstate.Of(s.Allocations, purpose); len(all) > 0 {
		found = all[len(all)-1]
	}
	return found
}

// host is where a Ray node is.
func host(t *testing.T, s launcher.Status, name string) string {
	t.Helper()
	for _, n := range s.Nodes {
		if n.Name == name {
			return n.Host
		}
	}
	t.Fatalf("there is no %s in %+v", name, s.Nodes)
	return ""
}

// wantsTwo is a driver that wants two nodes of group b, one of which is required, when the file is there, and works on both for long.
func (b *bed) wantsTwo(name string, g waitFile) *spec.ClusterSpec {
	s := b.twoGroups()
	s.Name = name
	s.Job.Entrypoint = g.wait() + `; exec python -c '
import os, ray, time
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as On
ray.init(log_to_driver=False, logging_level="ERROR")
group = ray.util.placement_group([{"b": 1}] * 2, strategy="STRICT_SPREAD")
ray.get(group.ready())
@ray.remote(num_cpus=0, resources={"b": 1})
class Worker:
    def here(self): return True
    def work(self): time.sleep(6000)
workers = [Worker.options(scheduling_strategy=On(group, i)).remote() for i in range(2)]
ray.get([w.here.remote() for w in workers])
work = [w.work.remote() for w in workers]
print("two in attempt", os.environ["RAYCTL_ATTEMPT"], flush=True)
time.sleep(6000)'`
	least, most := 1, 3
	s.Workers[1].Replicas, s.Workers[1].MinReplicas, s.Workers[1].MaxReplicas = &least, &least, &most
	return s
}

// two is what it has printed in so many attempts.
func two(attempts int) (text string) {
	for n := 1; n <= attempts; n++ {
		text += fmt.Sprintf("two in attempt %d\n", n)
	}
	return text
}

// last is the newest allocation of an elastic group; of none, one without a state.
func last(s launcher.Status) runstate.Allocation {
	return allocation(s, runstate.PurposeElastic)
}

func alive(s launcher.Status, name string) bool {
	for _, n := range s.Nodes {
		if n.Name == name {
			return n.State == runstate.NodeAlive
		}
	}
	return false
}

// wrapSbatch puts slurmtest's wrapper before sbatch, of launchers that are made later and of their jobs, and returns the directory of the files that it looks for.
func (b *bed) wrapSbatch(t *testing.T) (dir string) {
	t.Helper()
	dir = b.WrapSbatch(t)
	b.Prefix = slices.Concat(b.Prefix, []string{"sh", "-c", `PATH="$0:$PATH"; exec "$@"`, filepath.Join(dir, "bin")})
	return dir
}

// jobNumber is the number of an allocation's job.
func jobNumber(a runstate.Allocation) string {
	_, number, _ := strings.Cut(a.Message, "job ")
	number, _, _ = strings.Cut(number, ":")
	return number
}

func (b *bed) startController(t *testing.T) {
	t.Helper()
	if err := b.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// spread is a cluster whose head and worker are on nodes of their own.
func (b *bed) spread(name, entrypoint string) *spec.ClusterSpec {
	s := b.twoGroups()
	s.Name, s.Job.Entrypoint = name, entrypoint
	exclusive := true
	s.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Exclusive: &exclusive}})
	return s
}

// powerOff cuts the power of the node of one Ray node, until restore.
func (b *bed) powerOff(t *testing.T, s launcher.Status, member string) (restore func()) {
	t.Helper()
	for _, n := range s.Nodes {
		if n.Name == member {
			return b.powerOffHost(t, n.Host)
		}
	}
	t.Fatalf("there is no %s in %+v", member, s.Nodes)
	return nil
}

func (b *bed) powerOffHost(t *testing.T, host string) (restore func()) {
	t.Helper()
	i, err := strconv.Atoi(strings.TrimPrefix(host, "node"))
	if err != nil {
		t.Fatalf("the node is %q: %v", host, err)
	}
	if err := b.PowerOffNode(i); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := b.PowerOnNode(i); err != nil {
			t.Error(err)
		}
		b.AwaitNodeBack(t, i)
	}
}

func durationPtr(d time.Duration) *units.Duration { v := units.Duration(d); return &v }

// rewrite replaces the comments of a run's job.
func (b *bed) rewrite(t *testing.T, id launcher.ID) {
	t.Helper()
	ids, err := b.Slurm(t.Context(), "squeue", "--noheader", "--name="+string(id), "--format=%A")
	if err != nil || ids == "" {
		t.Fatalf("jobs %q: %v", ids, err)
	}
	for _, job := range strings.Fields(ids) {
		if _, err := b.Slurm(t.Context(), "scontrol", "update", "JobId="+job, "Comment=mine, 'not' yours"); err != nil {
			t.Error(err)
		}
	}
}

// contents are the files below a run's directory with their sizes and times, without nodes/: the supervisor of a node that lives saves Ray's logs there after
// its head was lost, whoever reads.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "nodes" {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err == nil {
			out[path] = info.ModTime().String() + " " + strconv.FormatInt(info.Size(), 10)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (b *bed) awaitFile(t *testing.T, path string) {
	t.Helper()
	b.Await(t, "the file "+path, func(context.Context) (bool, error) {
		_, err := os.Stat(path)
		return err == nil, nil
	})
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

// recorded is the output in the record of a run that has ended, of all attempts, without Ray's own lines.
func (b *bed) recorded(t *testing.T, l launcher.Launcher, id launcher.ID) string {
	t.Helper()
	result, err := l.Result(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for n := 1; n <= result.Attempt; n++ {
		which, submission, begin := n, result.Job.SubmissionID, result.Job.LogBegin
		if n == result.Attempt {
			which = 0
		}
		for _, a := range result.Attempts {
			if a.Attempt == n && a.SubmissionID != "" {
				submission, begin = a.SubmissionID, a.LogBegin
			}
		}
		log, err := result.OpenLog(t.Context(), which, 0)
		if err != nil {
			t.Fatal(err)
		}
		own := driverio.NewAttemptOutput(&out, result.Job, submission, begin, 0)
		_, err = io.Copy(own, log)
		if err := errors.Join(err, own.Flush(), log.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// linesOf are the lines that begin so.
func linesOf(begin, text string) (found string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begin) {
			found += line
		}
	}
	return found
}

// restd is a testbed's real slurmrestd behind a proxy, which can drop answers.
type restd struct {
	*bed
	url, tokenFile string
	drop           atomic.Bool // the next answer to a POST
}

func startRestd(t *testing.T, b *bed) *restd {
	t.Helper()
	bridge, err := b.Bridge(t.Context(), b.RestAddress())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bridge.Close)
	r := &restd{bed: b}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: bridge.Addr})
	proxy.ModifyResponse = func(resp *http.Response) error {
		if resp.Request.Method == http.MethodPost && r.drop.CompareAndSwap(true, false) {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { cutConnection(w) }
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until it is closed
	t.Cleanup(func() { _ = server.Close() })
	r.url = "http://" + listener.Addr().String()
	r.tokenFile = r.token(t, b.User(), 0o600)
	return r
}

// cutConnection ends a connection without an answer.
func cutConnection(w http.ResponseWriter) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = conn.Close()
	}
}

func (r *restd) token(t *testing.T, user string, mode os.FileMode) string {
	t.Helper()
	text, err := r.Token(user)
	if err != nil {
		t.Fatal(err)
	}
	return r.tokenOf(t, text, mode)
}

func (r *restd) tokenOf(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func (r *restd) over(t *testing.T, url, tokenFile string) *slurm.Launcher {
	t.Helper()
	l := slurm.New(slurm.Config{Runner: r.beside, REST: controller.NewREST(url, tokenFile), Dir: r.Dir()})
	t.Cleanup(l.Close)
	return l
}

func (r *restd) launcher(t *testing.T) *slurm.Launcher {
	t.Helper()
	return r.over(t, r.url, r.tokenFile)
}

// failing are the checks that fail.
func failing(checks []launcher.Check) (out []string) {
	for _, c := range checks {
		if !c.OK {
			out = append(out, c.Name)
		}
	}
	return out
}

// onPython36 is the bed of a user whose python3, on the login node too, is a 3.6.
func (b *bed) onPython36(t *testing.T) *bed {
	t.Helper()
	dir, err := os.MkdirTemp(b.Cluster.Dir+"/shared", "python36-")
	if err != nil {
		t.Fatal(err)
	}
	if err := needs.AsPython3(b.python36, dir); err != nil {
		t.Fatal(err)
	}
	other := *b
	other.Env = append(slices.Clone(b.Env), "PATH="+dir+":"+slurmtest.SearchPath)
	return &other
}
