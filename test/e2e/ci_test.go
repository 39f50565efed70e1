package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/pace"
)

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

var expression = regexp.MustCompile(`\$\{\{ *([a-z.-]+) *\}\}`)

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
			if what != "strategy.job-index" {
				g.t.Fatalf("unknown: %s", text)
			}
			return "0"
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

// TestGitHub: a run that succeeds, with hostile inputs, and one that is refused.
func TestGitHub(t *testing.T) {
	pace.Parallel(t)
	g := newGitHub(t, "train_it", map[string]string{"command": `echo "it's $((40+2)) ` + "`echo ok`" + `"`, "flags": "--label=a=b\n\n--env=WORDS=$(id) \"x y\"\n"})
	if !g.all(func(c *exec.Cmd) bool {
		out, err := c.Output()
		if err != nil || string(out) != "it's 42 ok\n" {
			t.Errorf("%v: %q", err, out)
		}
		return err == nil
	}) {
		t.Fatal("a step failed")
	}
	g.nothingRuns()
	contains(t, "the report", g.read(reportFile), `failures="0" errors="0"`, "it&#39;s 42 ok")
	if rc := decode[launcher.Receipt](t, g.read(receiptFile)); rc.Exit.Code != 0 {
		t.Errorf("%+v", rc.Exit)
	}

	refused := newGitHub(t, "refused", map[string]string{"command": "true", "flags": "--set=ray.python=/nosuch/python"})
	if refused.all(func(c *exec.Cmd) bool { return c.Run() == nil }) {
		t.Error("a refused launch has succeeded")
	}
	refused.nothingRuns()
	contains(t, "the report", refused.read(reportFile), `errors="1"`, "/nosuch/python")
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

// TestGitLab: a run that fails.
func TestGitLab(t *testing.T) {
	pace.Parallel(t)
	g := newGitLab(t, "4711", `RUN_COMMAND=echo "$WORDS"; exit 3`, "RUN_FLAGS=--env=WORDS=a  b*\n--label=a=b\n")
	job := g.command(g.before, g.script)
	if out, _ := job.Output(); string(out) != "a  b*\n" || job.ProcessState.ExitCode() != 3 {
		t.Errorf("exit code %d: %q", job.ProcessState.ExitCode(), out)
	}
	if out, err := g.command(g.after).Output(); err != nil || !strings.Contains(string(out), "ci-4711") {
		t.Errorf("afterwards: %v: %s", err, out)
	}
	contains(t, "the report", g.read(reportFile), `failures="1"`)
	if rc := decode[launcher.Receipt](t, g.read(receiptFile)); rc.Exit.Cause != runstate.CauseDriverFailed || rc.Exit.Code != 3 {
		t.Errorf("%+v", rc.Exit)
	}
}
