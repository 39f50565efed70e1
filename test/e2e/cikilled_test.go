package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/test/pace"
)

// TestCIKilled: at whatever moment a CI system kills the step that runs rayctl, the step that both templates have for afterwards leaves nothing running.
func TestCIKilled(t *testing.T) {
	for _, m := range ciMoments {
		t.Run("GitHub/"+m.name, func(t *testing.T) {
			pace.Parallel(t)
			g := newGitHub(t, m.name, map[string]string{"file": "cluster.yaml"})
			state := "XDG_STATE_HOME=" + t.TempDir()
			g.env = append(g.env, state)
			m.prepare(g.user)
			g.all(func(c *exec.Cmd) bool {
				m.kill(g.user, runDir(state, g.outputs["steps.name.outputs.name"]), c)
				return false
			})
			g.nothingRuns()
			nothingLeft(t, state)
		})
		t.Run("GitLab/"+m.name, func(t *testing.T) {
			pace.Parallel(t)
			g := newGitLab(t, m.name, "RUN_FILE=cluster.yaml")
			state := "XDG_STATE_HOME=" + t.TempDir()
			g.env = append(g.env, state)
			m.prepare(g.user)
			m.kill(g.user, runDir(state, "ci-"+m.name), g.command(g.before, g.script))
			if out, err := g.command(g.after).Output(); err != nil {
				t.Errorf("afterwards: %v: %s", err, out)
			}
			if out := g.want(0, "ls", "-o", "name").out; out != "" {
				t.Errorf("clusters: %s", out)
			}
			nothingLeft(t, state)
		})
	}
}

// ciMoments are in the order of a run's life. In the first one the client packs a directory that takes it long, so that the launch is not committed; in the
// second Ray's start follows the setup.
var ciMoments = []ciMoment{
	{name: "uncommitted", file: "setup: exec sleep 600\njob: {entrypoint: 'true', workingDir: large}\n", here: "state.json", run: true, not: "commit"},
	{name: "starting", file: "setup: 'touch DIR/begun'\njob: {entrypoint: sleep 600}\n", here: "begun"},
	{name: "running", file: "job: {entrypoint: 'touch DIR/begun; exec sleep 600'}\n", here: "begun"},
	{name: "draining", file: "job:\n  grace: 10m\n  entrypoint: \"trap 'touch DIR/saves; sleep 600' TERM; touch DIR/begun; while :; do sleep 0.1; done\"\n", here: "begun", term: "saves"},
}

// ciMoment is a moment at which a CI system ends the step or job that runs rayctl.
type ciMoment struct {
	name string
	file string // the cluster file; DIR is the directory of the job
	here string // a file that exists from the moment on: in the run's directory, else in the job's
	run  bool
	not  string // a file of the run's directory that does not exist yet
	term string // a file that exists once the driver has its grace: the CI system sends SIGTERM first, and SIGKILL then
}

// prepare writes the job's files.
func (m ciMoment) prepare(u *user) {
	u.t.Helper()
	u.write("cluster.yaml", strings.ReplaceAll(m.file, "DIR", u.dir))
	if err := os.Truncate(u.write("large/file", ""), 16<<30); err != nil { // takes no space, but a minute to pack
		u.t.Fatal(err)
	}
}

// kill starts the command, in a process group of its own, and ends the group at the moment. run is the run's directory.
func (m ciMoment) kill(u *user, run string, c *exec.Cmd) {
	u.t.Helper()
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		u.t.Fatal(err)
	}
	here := filepath.Join(u.dir, m.here)
	if m.run {
		here = filepath.Join(run, m.here)
	}
	eventually(u.t, here, func() bool { return exists(here) })
	if m.term != "" {
		syscall.Kill(-c.Process.Pid, syscall.SIGTERM)
		eventually(u.t, m.term, func() bool { return exists(filepath.Join(u.dir, m.term)) })
	}
	if m.not != "" && exists(filepath.Join(run, m.not)) {
		u.t.Errorf("%s is there already", m.not)
	}
	syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	c.Wait()
}

// runDir is the directory of a run below XDG_STATE_HOME.
func runDir(state, name string) string {
	_, dir, _ := strings.Cut(state, "=")
	return filepath.Join(dir, "rayctl", "clusters", name)
}

// nothingLeft waits until no process has a variable with this value, which all processes of a run inherit.
func nothingLeft(t *testing.T, variable string) {
	t.Helper()
	eventually(t, "the end of all processes with "+variable, func() bool {
		environs, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range environs {
			if env, err := os.ReadFile(path); err == nil && bytes.Contains(env, []byte(variable+"\x00")) {
				return false
			}
		}
		return true
	})
}
