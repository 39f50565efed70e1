//go:build linux

package slurm_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/test/oldpython"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/raytest"
	"github.com/rayctl/rayctl/test/slurmtest"
)

func TestMain(m *testing.M) {
	if task := os.Getenv(dyingClient); task != "" {
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

// bed is a testbed with Ray and what tests ask it.
type bed struct {
	*slurmtest.Cluster
	beside
	python   string
	python36 string   // which is too old for rayctl
	rays     []string // directories with Ray and its Python
	user     string   // whose clusters these are; "": there is only one user
}

// start starts a testbed whose nodes have real Ray.
func start(t *testing.T, o slurmtest.Options) *bed {
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
	python36 := oldpython.Python36(t, python)
	o.Binds = append(o.Binds, filepath.Dir(filepath.Dir(python36)))
	c := slurmtest.Start(t, o)
	cmd := c.Command(context.Background(), "", "true")
	b := beside{Bed: c.Dir, Prefix: cmd.Args[:len(cmd.Args)-1], Env: cmd.Env, Dir: c.Dir + "/shared/rayctl"}
	return &bed{Cluster: c, beside: b, python: python, python36: python36, rays: rays}
}

// as is the bed for another user, with slurm.dir in the user's home.
func (b *bed) as(user string) *bed {
	of, cmd := *b, b.Cluster.Command(context.Background(), user, "true")
	of.user = user
	of.beside = beside{Bed: b.Bed, Prefix: cmd.Args[:len(cmd.Args)-1], Env: cmd.Env, Dir: b.Home(user) + "/.rayctl"}
	return &of
}

func (b *bed) spec() *spec.ClusterSpec {
	return &spec.ClusterSpec{Ray: spec.Ray{Python: b.python}, Head: spec.Head{NodeResources: small()}}
}

func small() spec.NodeResources {
	return spec.NodeResources{CPUs: 1, Memory: resource.MustParse("1Gi")}
}

func (b *bed) twoGroups() *spec.ClusterSpec {
	second := small()
	second.CPUs, second.Resources = 2, map[string]float64{"b": 1}
	return &spec.ClusterSpec{Ray: spec.Ray{Python: b.python}, Workers: []spec.WorkerGroup{{Name: "a", NodeResources: small()}, {Name: "b", NodeResources: second}}}
}

// TestSlurm runs on one testbed of four nodes: first what has the controller or the nodes for itself, then the suite. What would follow the suite would run alone at the
// end of the package.
func TestSlurm(t *testing.T) {
	pace.Parallel(t)
	b := start(t, slurmtest.Options{Nodes: 4, GPUs: []slurmtest.GPU{{Type: "h100", Count: 2}}, Preemption: true, LoginSSH: true})
	// What users set for their own commands is not for ours: squeue would not show our jobs.
	b.Env = append(b.Env, "SQUEUE_PARTITION=high", "SQUEUE_STATES=SUSPENDED", "SCANCEL_PARTITION=high", "SLURM_TIME_FORMAT=%H")
	t.Run("Refused", b.refused)
	t.Run("CannotStart", b.cannotStart)
	t.Run("Queue", b.queue)
	t.Run("SSH", b.overSSH)
	t.Run("WrongHostKey", b.aWrongHostKey)
	t.Run("ControllerDown", b.controllerDown)
	t.Run("AllNodes", b.allNodes)
	t.Run("Work", b.work)
	t.Run("Preempted", b.preempted)
	t.Run("EndedBetween", b.endedBetween)
	t.Run("Conformance", func(t *testing.T) {
		t.Run("TimeLimit", func(t *testing.T) { // mostly waits
			pace.Parallel(t)
			b.timeLimit(t)
		})
		c := b.config(t)
		for _, name := range []string{"elastic group", "keeper killed", "another spec, secrets, terminate"} {
			c.Elsewhere[name] = "TestOldestVersion"
		}
		conformance.Run(t, c)
	})
	b.leavesNothing(t)
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
		Setting: b.setting(t), Spec: b.spec, TwoGroups: b.twoGroups, WithGPU: func(s *spec.ClusterSpec) { s.Head.GPUs = 1 }, Allocated: b.allocated, KillKeeper: b.killKeeper, KillHead: b.killHead, KeepsJobs: true, Hold: b.hold,
		FreezeDashboard: b.freezeDashboard, Elastic: true, HoldWorkers: b.holdWorkers, PacksFirst: true,
		Surfaces: b.surfaces, Story: b.story, Occupy: b.closePartition, Patience: patience,
		Without: map[string]string{
			"name service away for a minute":  "keeper and nodes find each other by addresses",
			"client killed before the commit": "TestFaults/DeadClient kills one after sbatch, which comes after the packing",
		},
		Elsewhere: map[string]string{
			"early head": "TestEarly/Queued", "prepare fails": "TestEarly/PrepareFails", "queue limit": "TestSlurm/Queue",
			// The keeper's and Ray's, which are the same on local.
			"runtime environment that fails": "local", "dashboard frozen for a minute": "local", "interrupt twice": "local", "idle": "local", "end on disconnect": "local",
			"prepare is interrupted": "local", "prepare hangs": "local", "prepare, then the driver": "local", "drivers that fail, and restarts": "local",
			"clients killed after the commit": "local",
			"head killed":                     "TestElastic/Queued and TestEarly/RequeuedAgain; that a further one ends the run: local",
			"warned of the end":               "TestSlurm/Conformance/TimeLimit; by lifetime.max: local",
		},
	}
}

// patience is for loaded machines: a start of Ray alone may take minutes there.
const patience = 6 * time.Minute

func (b *bed) run(id launcher.ID) string { return filepath.Join(b.Dir(), "runs", string(id)) }

// Dir is slurm.dir.
func (b *bed) Dir() string { return b.beside.Dir }

// allocated reads from Slurm and the nodes, not from the launcher, what the cluster holds.
func (b *bed) allocated(t *testing.T, id launcher.ID) []string {
	t.Helper()
	ask := []string{"--noheader", "--format=%j job %i %T"}
	if b.user != "" {
		ask = append(ask, "--user="+b.user)
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
		files, _ := filepath.Glob(filepath.Join(b.run(id), "*", "*"))
		left = append(left, slices.DeleteFunc(files, func(path string) bool { return !keeper.IsSecret(filepath.Base(path)) })...)
	}
	return append(left, b.directories(t, id)...)
}

func (b *bed) ended(id launcher.ID) bool {
	found, _ := filepath.Glob(filepath.Join(b.run(id), "*", keeper.ResultFile))
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
			if strings.Contains(text, b.run(id)+"/") || strings.Contains(text, b.run(id)+" ") || strings.Contains(text, b.run(id)+"\x00") {
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
	logs, _ := filepath.Glob(filepath.Join(b.run(id), "*", "keeper.log"))
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
		names, _ := filepath.Glob(filepath.Join(b.run(id), pattern))
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
	for _, root := range []string{b.run(id), b.Cluster.Dir + "/state", b.Cluster.Dir + "/spool", b.Cluster.Dir + "/log"} {
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
