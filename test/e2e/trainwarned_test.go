package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestTrainWarned: when the substrate announces the end (as Slurm does, by a signal to the keeper) the workers save by Ray Train's notice of a preemption,
// and the next run with the same output directory loses a step at most: with JAX in examples/train, and in what `rayctl init train` writes, in plain Python and with Debian's torch.
func TestTrainWarned(t *testing.T) {
	u := exampleUser(t)
	u.env = append(u.env, "XDG_STATE_HOME="+u.dir)
	t.Run("Example", func(t *testing.T) { u.in(t).warnedExample() })
	t.Run("Template", func(t *testing.T) { u.in(t).warnedTemplate("train") })
	t.Run("Torch", func(t *testing.T) {
		withTorch := u.in(t)
		withTorch.warnedTemplate("train-torch", withTorch.withTorch()...)
	})
}

// warnedExample is for examples/train. After a run that has ended by itself, one with more epochs restores and loses none.
func (u *user) warnedExample() {
	u.t.Helper()
	t := u.t
	out := filepath.Join(u.dir, "out")
	train := func(name, epochs string) []string {
		// On a crowded machine the notice may come only when the example's own grace is nearly over: it is given by another job of Ray.
		return []string{"run", "-f", example(t, "train", "rayctl.yaml"), "--name", name, "--grace", "10m", "--set", "job.outputDir=" + out, "--",
			"sh", "-c", `python train.py --epochs ` + epochs + ` --out "$RAYCTL_OUTPUT_DIR"`}
	}
	first := u.start(false, train("warned", "100000")...)
	first.until("epoch 2 ", 1)
	signalKeeper(t, filepath.Join(u.dir, "rayctl", "clusters", "warned", "state.json"))
	if code := first.code(); code != runstate.CodeTimeLimit {
		t.Fatalf("exit code %d: %s", code, tail(first.String()))
	}
	reached := regexp.MustCompile(`of the workers \[0, 1\] are going to be taken away(?s:.*)saved, to go on from there, .*: epoch (\d+)`).FindStringSubmatch(first.String())
	if reached == nil {
		t.Fatalf("nothing was saved at the end of %s", tail(first.String()))
	}
	next := u.runExample(train("goes-on", reached[1])...)
	if lost := lostSteps.FindStringSubmatch(next.out); lost == nil || lost[2] != "0" && lost[2] != "1" {
		t.Errorf("steps lost: %v, of %s", lost, tail(next.out))
	} else {
		contains(t, "the receipt of the run that went on", next.err, "  figures steps_lost "+lost[2]+"\n")
	}
	contains(t, "the run that went on", next.out, "trained on 2 workers: epoch "+reached[1])
	epoch, err := strconv.Atoi(reached[1])
	if err != nil {
		t.Fatal(err)
	}
	more := u.runExample(train("more", strconv.Itoa(epoch+2))...)
	contains(t, "the run with more epochs", more.out, fmt.Sprintf("restored step %d, steps lost: 0", 32*epoch), fmt.Sprintf("epoch %d", epoch+2))
	if strings.Contains(more.out, fmt.Sprintf("epoch %d ", epoch-1)) {
		t.Errorf("the run with more epochs began anew:\n%s", tail(more.out))
	}
}

// warnedTemplate is for what `rayctl init train` writes. Its program calls its runs train or train-torch, by the model that it has. more is for `rayctl run`.
func (u *user) warnedTemplate(model string, more ...string) {
	u.t.Helper()
	u.want(0, "init", "train", "--dir", model, "--set", "steps=100000")
	out := filepath.Join(u.dir, model, "out")
	run := func(name string, command ...string) []string {
		return slices.Concat([]string{"run", "-f", filepath.Join(model, "rayctl.yaml"), "--name", name, "--grace", "10m", "--output-dir", out}, more, command)
	}
	first := u.start(false, run(model+"-warned")...)
	first.until("Checkpoint successfully created", 5)
	signalKeeper(u.t, filepath.Join(u.dir, "rayctl", "clusters", model+"-warned", "state.json"))
	if code := first.code(); code != runstate.CodeTimeLimit {
		u.t.Fatalf("exit code %d: %s", code, tail(first.String()))
	}
	reached := number(u.t, first.String(), "stopped after step", 0)
	if left := newest("", filepath.Join(out, model, "checkpoint_*", "state.json"), nil)[""]; left != reached {
		u.t.Errorf("stopped after step %d, and the newest checkpoint of %s is that of step %d", reached, model, left)
	}
	next := u.runExample(run(model+"-goes-on", "--", "python", "train.py", "--steps", strconv.Itoa(reached+1))...)
	if begun := number(u.t, next.out, "beginning at step", 0); begun != reached && begun != reached-1 {
		u.t.Errorf("stopped after step %d, and the next run began at step %d", reached, begun)
	}
	contains(u.t, "the run that went on", next.out, "fitted: ", fmt.Sprintf("'step': %d,", reached+1))
}

// signalKeeper sends the keeper the signal by which Slurm warns.
func signalKeeper(t *testing.T, state string) {
	t.Helper()
	var st struct {
		Keeper struct {
			PID int `json:"pid"`
		} `json:"keeper"`
	}
	text, err := os.ReadFile(state)
	if err == nil {
		err = json.Unmarshal(text, &st)
	}
	if err == nil {
		err = syscall.Kill(st.Keeper.PID, syscall.SIGUSR1)
	}
	if err != nil {
		t.Fatal(err)
	}
}

var lostSteps = regexp.MustCompile(`restored step (\d+), steps lost: (\d+)`)
