package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.yaml.in/yaml/v3"

	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/once"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/raytest"
)

func TestMain(m *testing.M) {
	if program := os.Getenv(attackVariable); program != "" {
		os.Exit(attack(program))
	}
	pace.AtOnce("3") // the examples, most of which compute for long, run side by side
	dir, err := os.MkdirTemp("", "rayctl-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	home.dir, home.rayctl = dir, filepath.Join(dir, "rayctl")
	code := 1
	if err := once.Program(context.Background(), once.Rayctl, home.rayctl); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
		code = max(code, leftBehind())
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// limit is how long a step may take on a crowded machine. Tests wait for conditions; limit only ends waits that would never end.
const limit = 6 * time.Minute

// home is the environment of this test binary: its own rayctl, state and cache, one environment with Ray.
var home struct {
	sync.Mutex
	dir    string // below it bin, state, cache
	rayctl string
	shared bool // the cluster "shared" is up
}

// leftBehind ends the shared cluster and looks for leftovers: clusters, and processes that refer to our directory.
func leftBehind() int {
	down := exec.Command(home.rayctl, "down", "--all", "--now")
	down.Env = environment("")
	if out, err := down.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "down --all: %v\n%s", err, out)
		return 1
	}
	code := 0
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		data, err := os.ReadFile(path)
		if err == nil && bytes.Contains(data, []byte("XDG_STATE_HOME="+home.dir)) {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			fmt.Fprintf(os.Stderr, "left behind: %s %s\n", filepath.Base(filepath.Dir(path)), bytes.ReplaceAll(command, []byte{0}, []byte{' '}))
			code = 1
		}
	}
	return code
}

// environment is the environment of every command, without variables of other rayctls or Rays.
func environment(python string, more ...string) []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "RAY") && name != "CI" {
			env = append(env, kv)
		}
	}
	env = append(env, "XDG_STATE_HOME="+home.dir+"/state", "XDG_CACHE_HOME="+home.dir+"/cache", "XDG_CONFIG_HOME="+home.dir+"/config")
	if python != "" {
		env = append(env, "RAYCTL_RAY_PYTHON="+python)
	}
	return append(env, more...)
}

// user runs rayctl as a person does, in one directory.
type user struct {
	t      *testing.T
	python string
	dir    string
	env    []string
	rayctl string // "": of this commit
}

func newUser(t *testing.T) *user {
	t.Helper()
	return &user{t: t, python: raytest.Env(t, raytest.Ray260), dir: t.TempDir()}
}

// in is the user in a subtest.
func (u *user) in(t *testing.T) *user {
	at := *u
	at.t = t
	return &at
}

// result is the result of a command.
type result struct {
	out, err string
	code     int
}

func (u *user) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, cmp.Or(u.rayctl, home.rayctl), args...)
	c.Dir, c.Env = u.dir, environment(u.python, u.env...)
	return c
}

// do runs a command to its end.
func (u *user) do(args ...string) result {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), limit)
	defer cancel()
	c := u.command(ctx, args...)
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	err := c.Run()
	if ctx.Err() != nil {
		u.t.Fatalf("rayctl %q did not end: stdout %q, stderr %q", args, out.String(), stderr.String())
	}
	if c.ProcessState == nil {
		u.t.Fatalf("rayctl %q: %v", args, err)
	}
	code := c.ProcessState.ExitCode()
	if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	return result{out.String(), stderr.String(), code}
}

// want runs a command and expects an exit code.
func (u *user) want(code int, args ...string) result {
	u.t.Helper()
	r := u.do(args...)
	if r.code != code {
		u.t.Fatalf("rayctl %q: exit code %d, want %d\nstdout: %s\nstderr: %s", args, r.code, code, r.out, r.err)
	}
	return r
}

// write makes a file in the user's directory.
func (u *user) write(name, content string) string {
	u.t.Helper()
	path := filepath.Join(u.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		u.t.Fatal(err)
	}
	return path
}

// sharedCluster is one cluster of two nodes for all tests that do not concern a cluster's life.
func sharedCluster(t *testing.T) *user {
	t.Helper()
	u := newUser(t)
	home.Lock()
	defer home.Unlock()
	if !home.shared {
		u.want(0, "up", "shared", "--workers", "2", "--cpus-per-worker", "2", "--label", "test=e2e")
		home.shared = true
	}
	return u
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return v
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s lacks %q:\n%s", what, p, text)
		}
	}
}

// screen collects a command's output and lets a test wait for it.
type screen struct {
	t      *testing.T
	cmd    *exec.Cmd
	tty    *os.File // nil: no terminal
	mu     sync.Mutex
	text   bytes.Buffer
	change chan struct{}
	exit   int           // with a terminal: the code that the leader reports, -1 as long as it has not
	read   chan struct{} // closed when all of its output is here
}

// leader is what a terminal's shell is to the command: the leader of the session. When that ends, the kernel drops what the terminal has not read yet
// (Linux, drivers/tty/pty.c, pty_flush_buffer: seen once in 150 times on a busy machine), so it stays until its input ends, and reports the exit code.
const leader = `trap : INT QUIT HUP TERM; "$@" 3<&-; printf '\001%d\001' $?; read -r _ <&3`

// reported is the leader's report, after all output.
var reported = regexp.MustCompile(`\x01(\d+)\x01$`)

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	select {
	case s.change <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// start runs a command in the background, on a terminal of its own or without one.
func (u *user) start(terminal bool, args ...string) *screen {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	u.t.Cleanup(cancel)
	return startScreen(u.t, u.command(ctx, args...), terminal)
}

// columns is how wide terminals are.
const columns = 80

// startScreen starts a command on a terminal of its own or without one.
func startScreen(t *testing.T, cmd *exec.Cmd, terminal bool) *screen {
	t.Helper()
	s := &screen{t: t, cmd: cmd, exit: -1, change: make(chan struct{}, 1), read: make(chan struct{})}
	if !terminal {
		s.cmd.Stdout, s.cmd.Stderr = s, s
		if err := s.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		close(s.read)
		return s
	}
	stays, leave, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args = append([]string{"sh", "-c", leader, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.ExtraFiles = "/bin/sh", []*os.File{stays}
	tty, err := pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	stays.Close()
	s.tty = tty
	t.Cleanup(func() { leave.Close(); tty.Close(); cmd.Wait() })
	go func() {
		defer close(s.read)
		for buffer := make([]byte, 4096); ; {
			n, err := tty.Read(buffer)
			_, _ = s.Write(buffer[:n])
			if err != nil || s.takeReport() {
				return
			}
		}
	}()
	return s
}

// until waits until the text has appeared n times.
func (s *screen) until(text string, n int) {
	s.t.Helper()
	end := time.After(limit)
	for strings.Count(s.String(), text) < n {
		select {
		case <-s.change:
		case <-end:
			s.t.Fatalf("%q did not come; the screen: %q", text, s.String())
		}
	}
}

// key types on the terminal.
func (s *screen) key(text string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// takeReport takes the leader's report off the end of the text.
func (s *screen) takeReport() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := reported.FindSubmatch(s.text.Bytes())
	if found == nil {
		return false
	}
	s.text.Truncate(s.text.Len() - len(found[0]))
	s.exit, _ = strconv.Atoi(string(found[1]))
	return true
}

// code waits for the end.
func (s *screen) code() int {
	s.t.Helper()
	<-s.read
	if s.tty != nil {
		return s.exit
	}
	s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// What the scripts leave for the CI system.
const receiptFile, reportFile = "rayctl-receipt.json", "rayctl-report.xml"

// githubStep is a step of a composite action.
type githubStep struct {
	ID, If, Shell, Run string
	Env                map[string]string
}

// github runs the steps of the action as GitHub's runner does, as its documentation describes it ("Metadata syntax for GitHub Actions", "Workflow
// commands", "Variables"); the runner itself needs GitHub.
type github struct {
	*user
	inputs  map[string]string
	steps   []githubStep
	outputs map[string]string // "steps.ID.outputs.NAME"
}

func newGitHub(t *testing.T, job string, inputs map[string]string) *github {
	t.Helper()
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct {
			Using string
			Steps []githubStep
		}
	}
	readYAML(t, "../../ci/github/action.yml", &action)
	g := &github{user: newUser(t), inputs: map[string]string{}, steps: action.Runs.Steps, outputs: map[string]string{}}
	for name, input := range action.Inputs {
		g.inputs["inputs."+name] = input.Default
	}
	for name, value := range inputs {
		if _, known := g.inputs["inputs."+name]; !known {
			t.Fatalf("the action has no input %s", name)
		}
		g.inputs["inputs."+name] = value
	}
	g.env = []string{"CI=true", "GITHUB_ACTIONS=true", "GITHUB_RUN_ID=1658821493", "GITHUB_RUN_ATTEMPT=1", "GITHUB_JOB=" + job, "RUNNER_TEMP=" + t.TempDir(),
		"GITHUB_OUTPUT=" + g.write("output", ""), "GITHUB_PATH=" + g.write("path", ""), "GITHUB_STEP_SUMMARY=" + g.write("summary.md", ""),
		"PATH=" + home.dir + ":" + os.Getenv("PATH")}
	return g
}

var expression = regexp.MustCompile(`\$\{\{ *([a-z._-]+) *\}\}`)

// command is a step's shell, ready to run.
func (g *github) command(s githubStep) *exec.Cmd {
	g.t.Helper()
	if s.Shell != "bash" || strings.Contains(s.Run, "${{") {
		g.t.Fatalf("not a safe script of bash: %+v", s)
	}
	c := exec.CommandContext(g.t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", g.write("step.sh", s.Run))
	c.Dir, c.Env = g.dir, environment(g.python, g.env...)
	for name, value := range s.Env {
		c.Env = append(c.Env, name+"="+expression.ReplaceAllStringFunc(value, func(text string) string {
			what := expression.FindStringSubmatch(text)[1]
			if value, ok := g.outputs[what]; ok {
				return value
			}
			if value, ok := g.inputs[what]; ok {
				return value
			}
			known, ok := map[string]string{"strategy.job-index": "0", "github.action_ref": "v0.0.0"}[what]
			if !ok {
				g.t.Fatalf("unknown: %s", text)
			}
			return known
		}))
	}
	return c
}

// all runs the steps; run runs the one with the job, and returns whether that succeeded. Returned is whether all did.
func (g *github) all(run func(*exec.Cmd) bool) bool {
	g.t.Helper()
	good := true
	for _, s := range g.steps {
		if !good && s.If != "always()" {
			continue
		}
		c := g.command(s)
		switch {
		case strings.Contains(s.Run, "rayctl run --name"):
			good = run(c)
		default:
			if out, err := c.CombinedOutput(); err != nil {
				g.t.Errorf("step %s: %v: %s", s.Run, err, out)
			}
		}
		text, err := os.ReadFile(filepath.Join(g.dir, "output"))
		if err != nil {
			g.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			g.outputs["steps."+s.ID+".outputs."+name] = value
		}
	}
	return good
}

// nothingRuns: whatever happened, the CI system leaves nothing running, and its summary names the run.
func (g *github) nothingRuns() {
	g.t.Helper()
	name := g.outputs["steps.name.outputs.name"]
	if out := g.want(0, "ls", "-o", "name").out; name == "" || strings.Contains(out, name) {
		g.t.Errorf("run %q: %s", name, out)
	}
	contains(g.t, "the summary", g.read("summary.md"), "### rayctl run "+name)
}

func (u *user) read(name string) string {
	u.t.Helper()
	text, err := os.ReadFile(filepath.Join(u.dir, name))
	if err != nil {
		u.t.Fatal(err)
	}
	return string(text)
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(path, err)
	}
}

// gitlab runs the scripts of the template's job as GitLab's runner does, as its documentation describes it ("CI/CD YAML syntax reference"): before_script
// and script in one shell, after_script in another; the runner itself needs GitLab.
type gitlab struct {
	*user
	before, script, after []string
}

func newGitLab(t *testing.T, id string, variables ...string) *gitlab {
	t.Helper()
	var file struct {
		Rayctl struct {
			Variables    map[string]string
			BeforeScript []string `yaml:"before_script"`
			Script       []string
			AfterScript  []string `yaml:"after_script"`
		} `yaml:".rayctl"`
	}
	readYAML(t, "../../ci/gitlab/rayctl.yml", &file)
	g := &gitlab{newUser(t), file.Rayctl.BeforeScript, file.Rayctl.Script, file.Rayctl.AfterScript}
	for name, value := range file.Rayctl.Variables {
		g.env = append(g.env, name+"="+value)
	}
	g.env = append(g.env, "CI=true", "GITLAB_CI=true", "CI_JOB_ID="+id, "CI_PROJECT_DIR="+g.dir, "PATH="+home.dir+":"+os.Getenv("PATH"))
	g.env = append(g.env, variables...)
	return g
}

// command is a shell with scripts of the job, ready to run.
func (g *gitlab) command(scripts ...[]string) *exec.Cmd {
	g.t.Helper()
	c := exec.CommandContext(g.t.Context(), "sh", "-e", g.write("job.sh", strings.Join(slices.Concat(scripts...), "\n")))
	c.Dir, c.Env, c.Stderr = g.dir, environment(g.python, g.env...), os.Stderr
	return c
}

// exampleLimit is for a whole training run on a crowded machine, including the installation of its environment.
const exampleLimit = 20 * time.Minute

// exampleUser runs the unchanged examples, in the environment that rayctl makes for them. The environment stays in the
// tests' cache for the next run. The clusters are this user's alone: such tests run beside others, after those that share clusters.
func exampleUser(t *testing.T) *user {
	t.Helper()
	pace.Parallel(t)
	needs.RealSystem(t)
	state, err := os.MkdirTemp(home.dir, "state-") // below home.dir, for leftBehind
	if err != nil {
		t.Fatal(err)
	}
	cache := os.Getenv("RAYCTL_TEST_CACHE")
	if cache == "" {
		base, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(base, ".cache", "rayctl-test")
	}
	return &user{t: t, dir: t.TempDir(), env: []string{"XDG_CACHE_HOME=" + filepath.Join(cache, "xdg"), "XDG_STATE_HOME=" + state}}
}

func example(t *testing.T, path ...string) string {
	t.Helper()
	abs, err := filepath.Abs(filepath.Join(append([]string{"..", "..", "examples"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// runExample runs an example with `rayctl run`, in a copy so that the checkout stays unchanged.
func (u *user) runExample(args ...string) result {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), exampleLimit)
	defer cancel()
	c := u.command(ctx, args...)
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	if err := c.Run(); err != nil {
		u.t.Fatalf("rayctl %q: %v\nstdout: %s\nstderr: %s", args, err, tail(out.String()), tail(stderr.String()))
	}
	return result{out: out.String(), err: stderr.String()}
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

var rewardLine = regexp.MustCompile(`(?m)^step (\d+) reward (\d\.\d+)`)

// learned checks the output of a training run: it began near chance and ended at the goal, a mean of five steps, after at least so many.
func learned(t *testing.T, r result, goal float64, least int) {
	t.Helper()
	steps := rewardLine.FindAllStringSubmatch(r.out, -1)
	if len(steps) < least {
		t.Fatalf("%d steps were printed:\n%s", len(steps), tail(r.out))
	}
	reward := func(i int) float64 {
		f, err := strconv.ParseFloat(steps[i][2], 64)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if first := reward(0); first > 0.3 {
		t.Errorf("the first reward is %.2f, which is not near chance", first)
	}
	sum := 0.0
	for i := len(steps) - 5; i < len(steps); i++ {
		sum += reward(i)
	}
	if mean := sum / 5; mean < goal-0.005 { // five figures rounded to two digits, of a mean of at least the goal
		t.Errorf("the mean reward of the last five steps is %.3f", mean)
	}
	contains(t, "the receipt", r.err, "succeeded", "node-seconds")
}

// elasticLines is what examples/elastic prints, with lines of Ray's own in between.
const elasticLines = `nodes at the start: 1\n.*nodes that did the work: 3\n.*nodes at the end: 1`

const ctrlC = "\x03"

// patient prints a line on SIGTERM and exits, like a driver that saves a checkpoint.
const patient = `import signal, sys, time
def stop(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True:
    time.sleep(0.1)
`

// whereabouts prints where the driver, a task and an actor run, which cluster it is, and whether SLURM_* variables are those of a start by srun. The task and the driver leave results.
const whereabouts = `import os, ray
ray.init(log_to_driver=False, logging_level="ERROR")
@ray.remote
def task():
    with open("from-task", "w") as f: f.write("task")
    return os.getcwd()
@ray.remote
class Actor:
    def where(self): return os.getcwd()
with open(os.path.join(os.environ["RAYCTL_OUTPUT_DIR"], "result"), "w") as f: f.write("result")
print(os.getcwd(), ray.get(task.remote()), ray.get(Actor.remote().where.remote()), os.environ["RAYCTL_RUN"], sep="|")
print(*sorted(name for name in os.environ if name.startswith("SLURM_")))
`

// driverProcess is the Python process of an attempt's driver, 0 if there is none.
func driverProcess(t *testing.T, run, attempt, script string) int {
	t.Helper()
	found := processesOf(t, run, func(words []string, environ []byte) bool {
		return len(words) > 1 && words[1] == script && bytes.Contains(environ, []byte("\x00RAYCTL_ATTEMPT="+attempt+"\x00"))
	})
	return append(found, 0)[0]
}

// processesOf are the processes of a run that fit.
func processesOf(t *testing.T, run string, fits func(words []string, environ []byte) bool) (found []int) {
	t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range environs {
		environ, err := os.ReadFile(path)
		command, err2 := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil || err2 != nil || !bytes.Contains(environ, []byte("\x00RAYCTL_RUN="+run+"\x00")) || !fits(strings.Split(string(command), "\x00"), environ) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

// hostile are arguments with special meaning in shells, YAML or URLs.
var hostile = []string{"", "a  b", "new\nline", "$(id)", "`id`", "it's", `"q"`, `b\s`, "*", "~", "#x", "-n", "ünï😀", "%20&?", "{{.}}", "a: b"}

// printArguments prints its arguments, NUL-separated, and exits with the code in CODE.
const printArguments = `import os, sys
sys.stdout.write("\0".join(sys.argv[1:]))
sys.exit(int(os.environ.get("CODE", "0")))
`

// eventually waits for a condition.
func eventually(t *testing.T, what string, here func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !here(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// commonDir is a directory that every user may write to, like /tmp.
func commonDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rayctl-common-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// secondUser is an unprivileged user of this machine with its own user id, group and home directory. Tests run as root, whom
// file modes do not restrict, so that the victim is such a user too.
type secondUser struct {
	t    *testing.T
	name string
	uid  int
	home string   // mode 0700
	dir  string   // the current directory of its commands, at first in its home
	env  []string // more variables
	ray  bool     // its commands can access the Python of Ray's environment for tests
	team bool     // it is in the group teamID, too
}

// Ids used by no other test.
const (
	victimID    = 12345
	attackerID  = 12346
	colleagueID = 12347
	teamID      = 12350 // a group
)

// secondUsers makes the victim and the attacker. At the test's end it ends what the victim's rayctl still runs.
func secondUsers(t *testing.T) (victim, attacker *secondUser) {
	t.Helper()
	needs.RealSystem(t)
	needs.Root(t)
	needs.That(t, runtime.GOOS == "linux", "needs Linux for other users' processes and files")
	victim, attacker = newSecondUser(t, "victim", victimID), newSecondUser(t, "attacker", attackerID)
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(victim.home, ".local", "state", "rayctl", "clusters")); err == nil {
			victim.dir, victim.env = victim.home, nil
			victim.want(0, "down", "--all", "--now")
		}
	})
	return victim, attacker
}

func newSecondUser(t *testing.T, name string, uid int) *secondUser {
	t.Helper()
	if err := os.Chmod(home.dir, 0o711); err != nil { // for the binary and the homes; the rest has its own modes
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(home.dir, name+"-") // mode 0700
	if err != nil {
		t.Fatal(err)
	}
	s := &secondUser{t: t, name: name, uid: uid, home: dir, dir: filepath.Join(dir, "work")}
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	s.mkdir(s.dir, 0o755)
	return s
}

// in is the user in a subtest, which may change the directory and the variables of its commands.
func (s *secondUser) in(t *testing.T) *secondUser {
	at := *s
	at.t, at.env = t, slices.Clone(s.env)
	return &at
}

// withRay makes Ray's environment for tests accessible to the user's commands, although its files may be below root's home.
func (s *secondUser) withRay() *secondUser {
	s.t.Helper()
	s.env = append(s.env, "RAYCTL_RAY_PYTHON="+raytest.Env(s.t, raytest.Ray260))
	s.ray = true
	return s
}

// exec is a command of the user. Programs of tests must be in directories open to every user.
func (s *secondUser) exec(ctx context.Context, program string, args ...string) *exec.Cmd {
	s.t.Helper()
	argv := append([]string{program}, args...)
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if s.ray {
		c = s.seeing(ctx, argv)
	} else {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid)}}
		if s.team {
			c.SysProcAttr.Credential.Groups = []uint32{teamID}
		}
	}
	c.Dir, c.Env = s.dir, s.environment()
	return c
}

// environment is a login's, with XDG_STATE_HOME at its default: leftBehind finds our processes by it.
func (s *secondUser) environment() []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "USER=" + s.name, "LOGNAME=" + s.name, "XDG_STATE_HOME=" + s.home + "/.local/state",
	}, s.env...)
}

// hidden maps the first directory that not every user may enter, on the path to this machine's Ray for tests, to the directories needed below it.
var hidden = sync.OnceValues(func() (map[string][]string, error) {
	python, err := raytest.Install(context.Background(), raytest.Ray260, func(string, ...any) {})
	if err != nil {
		return nil, err
	}
	out, err := exec.Command(python, "-c", "import sys; print(sys.prefix); print(sys.base_prefix)").Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s where it is: %w", python, err)
	}
	found := map[string][]string{}
	for _, dir := range strings.Fields(string(out)) {
		for path, parts := "", strings.Split(dir, "/")[1:]; len(parts) > 0; parts = parts[1:] {
			path += "/" + parts[0]
			info, err := os.Stat(path)
			if err != nil {
				return nil, err
			}
			if info.Mode().Perm()&0o005 != 0o005 {
				found[path] = append(found[path], dir)
				break
			}
		}
	}
	return found, nil
})

// seeing is a command of the user in a mount namespace where each hidden directory is replaced by one with only the needed directories.
func (s *secondUser) seeing(ctx context.Context, argv []string) *exec.Cmd {
	s.t.Helper()
	mounts, err := hidden()
	if err != nil {
		s.t.Fatal(err)
	}
	script := "set -e\n"
	for top, dirs := range mounts {
		view := filepath.Join(home.dir, "view") // mounted separately in each namespace
		if err := os.MkdirAll(view, 0o755); err != nil {
			s.t.Fatal(err)
		}
		script += fmt.Sprintf("mount -t tmpfs -o mode=755 view %s\n", view)
		for _, dir := range dirs {
			at := view + strings.TrimPrefix(dir, top)
			script += fmt.Sprintf("mkdir -p %s; mount --bind %s %s\n", at, dir, at)
		}
		script += fmt.Sprintf("mount --rbind %s %s\n", view, top)
	}
	id, groups := strconv.Itoa(s.uid), "--clear-groups"
	if s.team {
		groups = "--groups=" + strconv.Itoa(teamID)
	}
	script += "exec setpriv --reuid=" + id + " --regid=" + id + " " + groups + ` -- "$@"`
	return exec.CommandContext(ctx, "unshare", append([]string{"--mount", "--propagation", "private", "--", "sh", "-c", script, "sh"}, argv...)...)
}

// run runs a program of the user to its end.
func (s *secondUser) run(program string, args ...string) result {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit) // also for a test's cleanup
	defer cancel()
	c := s.exec(ctx, program, args...)
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	err := c.Run()
	if ctx.Err() != nil || c.ProcessState == nil {
		s.t.Fatalf("%s: %s %q did not end: %v: stdout %q, stderr %q", s.name, program, args, err, out.String(), stderr.String())
	}
	return result{out.String(), stderr.String(), c.ProcessState.ExitCode()}
}

// do runs rayctl as the user.
func (s *secondUser) do(args ...string) result { s.t.Helper(); return s.run(home.rayctl, args...) }

// want runs rayctl as the user and expects an exit code.
func (s *secondUser) want(code int, args ...string) result {
	s.t.Helper()
	r := s.do(args...)
	if r.code != code {
		s.t.Fatalf("%s: rayctl %q: exit code %d, want %d\nstdout: %s\nstderr: %s", s.name, args, r.code, code, r.out, r.err)
	}
	return r
}

// sh runs a script as the user.
func (s *secondUser) sh(script string) result { s.t.Helper(); return s.run("sh", "-c", script) }

// must runs a script as the user, expects success, and returns its output.
func (s *secondUser) must(script string) string {
	s.t.Helper()
	r := s.sh(script)
	if r.code != 0 {
		s.t.Fatalf("%s: %s: exit code %d: %s%s", s.name, script, r.code, r.out, r.err)
	}
	return r.out
}

// mkdir makes a directory and its parents as the user, independent of the umask.
func (s *secondUser) mkdir(path string, mode os.FileMode) {
	s.t.Helper()
	if r := s.runAt("/", "sh", "-c", `mkdir -p -- "$1" && chmod "$2" -- "$1"`, "sh", path, fmt.Sprintf("%o", mode)); r.code != 0 {
		s.t.Fatalf("%s: mkdir %s: %s", s.name, path, r.err)
	}
}

// write makes a file as the user, and its directory. A relative path is in its home.
func (s *secondUser) write(path, content string, mode os.FileMode) string {
	s.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.home, path)
	}
	if r := s.runAt("/", "sh", "-c", `mkdir -p -- "$(dirname -- "$1")" && printf %s "$2" > "$1" && chmod "$3" -- "$1"`, "sh", path, content, fmt.Sprintf("%o", mode)); r.code != 0 {
		s.t.Fatalf("%s: write %s: %s", s.name, path, r.err)
	}
	return path
}

// runAt is run in another directory.
func (s *secondUser) runAt(dir, program string, args ...string) result {
	s.t.Helper()
	at := *s
	at.dir, at.ray = dir, false
	return at.run(program, args...)
}

// exists reports whether a file exists that only root may see.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

var urlLine = regexp.MustCompile(`(?m)(\w+): (http://127\.0\.0\.1:\d+/\S*)$`)

// serveURL is the URL of an application, as it was printed.
func serveURL(t *testing.T, said, application string) string {
	t.Helper()
	for _, m := range urlLine.FindAllStringSubmatch(said, -1) {
		if m[1] == application {
			return m[2]
		}
	}
	t.Fatalf("no URL of %s in %q", application, said)
	return ""
}

// nextPage matches the target of a page of `rayctl dashboard`.
var nextPage = regexp.MustCompile(`http-equiv="refresh" content="0; url=([^"]+)"`)

// enterDashboard opens an entry like a browser that resolves names below localhost.
func enterDashboard(t *testing.T, entry string) (browser *http.Client, base string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser = &http.Client{Jar: jar, Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+port)
	}}}
	t.Cleanup(browser.CloseIdleConnections)
	for at := entry; ; {
		resp, err := browser.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		next := nextPage.FindSubmatch(body)
		if err != nil || next == nil {
			t.Fatalf("%s: %d %s, %v", at, resp.StatusCode, body, err)
		}
		if string(next[1]) == "/" {
			return browser, "http://" + resp.Request.URL.Host
		}
		at = string(next[1])
	}
}

// newest adds the greatest step of the states that fit a pattern.
func newest(trial, pattern string, found map[string]int) map[string]int {
	states, _ := filepath.Glob(pattern)
	for _, path := range states {
		var state struct{ Step int }
		text, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(text, &state) != nil {
			continue // it is being written
		}
		if found == nil {
			found = map[string]int{}
		}
		found[trial] = max(found[trial], state.Step)
	}
	return found
}
