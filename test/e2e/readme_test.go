package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/test/readme"
)

// session is the one of a section of README.md.
func session(t *testing.T, title string) readme.Session {
	t.Helper()
	sessions, err := readme.Sessions(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if sessions[title].Name == "" {
		t.Fatalf("README.md has no session %q", title)
	}
	return sessions[title]
}

// TestReadme repeats the first session of README.md as a user types it, one command after another in a new home, and sees the same. The cluster files of the others are
// rendered; TestSlurmExamples and kuberay's TestExamples repeat those sessions.
func TestReadme(t *testing.T) {
	u := newUser(t)
	state := t.TempDir()
	u.env = []string{"XDG_STATE_HOME=" + state, "XDG_CACHE_HOME=" + state + "/cache", "PATH=" + filepath.Dir(home.rayctl) + ":" + os.Getenv("PATH")}
	defer u.want(0, "down", "--all", "--now")
	first := session(t, "On this machine")
	first.Write(func(name, text string) { u.write(name, text) })
	for _, step := range first.Steps {
		if differs := step.Differs(u.shell(step.Command)); differs != "" {
			t.Error(differs)
		}
	}
	for _, title := range []string{"On Slurm", "On Kubernetes"} {
		s := session(t, title)
		s.Write(func(name, text string) { u.write(name, text) })
		rendered := u.shell("rayctl render --name shown -f " + s.Name)
		contains(t, "what "+s.Name+" renders", rendered, "shown", "train.py")
	}
}

// shell is what a command line prints to a user's terminal, stdout and stderr together.
func (u *user) shell(line string) string {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", line)
	c.Dir, c.Env = u.dir, environment(u.python, u.env...)
	out, err := c.CombinedOutput()
	if err != nil {
		u.t.Fatalf("%s: %v: %s", line, err, out)
	}
	return strings.ReplaceAll(string(out), u.dir, "")
}
