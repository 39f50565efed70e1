package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/test/needs"
)

// TestRLlibTemplate: with Debian's torch. TestRLlibNewTorch has PyPI's.
func TestRLlibTemplate(t *testing.T) {
	u := exampleUser(t)
	u.learns(u.withTorch()...)
}

// learns runs what `rayctl init rllib` writes, on one cluster. The driver is killed after its first checkpoint, from which the next job goes on; that one is stopped, saves, and the third
// job has one iteration left. more is for `rayctl up`.
func (u *user) learns(more ...string) {
	u.t.Helper()
	t := u.t
	up := append([]string{"up", "learners", "-f", "rllib/rayctl.yaml", "--output-dir", filepath.Join(u.dir, "out")}, more...)
	u.want(0, "init", "rllib", "--dir", "rllib", "--set", "nodes=1", "--set", "iterations=100000")
	u.runExample(up...)
	defer u.want(0, "down", "learners", "--now")

	first := u.start(false, "submit", "learners", "-f", "rllib/rayctl.yaml")
	first.until("iteration 1 return ", 1)
	eventually(t, "the first checkpoint", func() bool { return u.iteration() > 0 })
	for _, pid := range processesOf(t, "learners", func(words []string, _ []byte) bool { return len(words) > 1 && words[1] == "train.py" }) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	if code := first.code(); code == 0 {
		t.Errorf("the driver was not killed: %s", tail(first.String()))
	}
	reached := u.iteration()

	second := u.start(false, "submit", "learners", "-f", "rllib/rayctl.yaml", "--submission-id", "second")
	second.until("beginning at iteration "+strconv.Itoa(reached)+"\n", 1)
	second.until("iteration "+strconv.Itoa(reached+1)+" return ", 1)
	u.want(0, "stop", "learners", "second")
	second.code()
	stopped := regexp.MustCompile(`stopped after iteration (\d+)\n`).FindStringSubmatch(second.String())
	if stopped == nil || stopped[1] != strconv.Itoa(u.iteration()) {
		t.Fatalf("the newest checkpoint is that of iteration %d, and %q was printed by %s", u.iteration(), stopped, tail(second.String()))
	}
	last := strconv.Itoa(u.iteration() + 1)
	third := u.runExample("submit", "learners", "-f", "rllib/rayctl.yaml", "--", "python", "train.py", "--runners", "1", "--iterations", last)
	contains(t, "the job that has one iteration left", third.out, "beginning at iteration "+stopped[1]+"\niteration "+last+" return ")
}

// savedByRLlib is the iteration of the newest checkpoint in an output directory.
func savedByRLlib(t *testing.T, out string) map[string]int {
	t.Helper()
	var found map[string]int
	all, _ := filepath.Glob(filepath.Join(out, "checkpoints", "*"))
	for _, path := range all {
		if iteration, err := strconv.Atoi(filepath.Base(path)); err == nil {
			found = map[string]int{"": max(found[""], iteration)}
		}
	}
	return found
}

// iteration is that of the newest checkpoint in the output directory, 0 if there is none.
func (u *user) iteration() int {
	u.t.Helper()
	return savedByRLlib(u.t, filepath.Join(u.dir, "out"))[""]
}

// withTorch lets the user's clusters import Debian's torch beside RLlib, and returns what to set for them: PyPI has torch for Linux only with CUDA, 6 GB. It was built for Debian's
// Python and for numpy 1, which later versions of pyarrow refuse.
func (u *user) withTorch() []string {
	u.t.Helper()
	bin := filepath.Dir(needs.Program(u.t, "torchrun", "python3-torch"))
	out, err := exec.CommandContext(u.t.Context(), filepath.Join(bin, "python3"), "-c", "import torch; print(torch.__path__[0], end='')").Output()
	if err != nil {
		u.t.Fatal(err)
	}
	beside := u.t.TempDir()
	if err := os.Symlink(string(out), filepath.Join(beside, "torch")); err != nil {
		u.t.Fatal(err)
	}
	u.env = append(u.env, "PATH="+bin) // in which no other Python is
	return []string{"--set", "env.PYTHONPATH=" + beside, "--set", `local.packages=["ray[rllib]", "numpy<2", "pyarrow<23"]`}
}
