package kuberay_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/test/pace"
)

// TestGRPOInPods runs examples/grpo by `rayctl run --launcher kuberay`: the policy learns.
func TestGRPOInPods(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	rayctl, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), exampleLimit)
	defer cancel()
	home := t.TempDir()
	c := exec.CommandContext(ctx, rayctl, "run", "-f", "../examples/grpo/rayctl.yaml", "--launcher", "kuberay",
		"--", "sh", "-c", `python grpo.py --goal 0.6 --out "$RAYCTL_OUTPUT_DIR"`) // how far it learns is test/e2e's TestGRPO
	c.Env = append(os.Environ(), "KUBECONFIG="+b.kubeconfig, "XDG_STATE_HOME="+home, "XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home)
	var out, notes bytes.Buffer
	c.Stdout, c.Stderr = &out, &notes
	if err := c.Run(); err != nil {
		t.Fatalf("rayctl run: %v\nstdout: %s\nstderr: %s", err, out.String(), notes.String())
	}
	rewards := rewardLine.FindAllStringSubmatch(out.String(), -1)
	if len(rewards) < 5 {
		t.Fatalf("%d steps were printed:\n%s", len(rewards), out.String())
	}
	sum := 0.0
	for _, line := range rewards[len(rewards)-5:] {
		reward, err := strconv.ParseFloat(line[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += reward
	}
	if mean := sum / 5; mean < 0.595 { // five figures rounded to two digits, of a mean of at least 0.6
		t.Errorf("the mean reward of the last five steps is %.3f", mean)
	}
	if !strings.Contains(notes.String(), "succeeded") {
		t.Errorf("the receipt: %s", notes.String())
	}
	b.NothingLeft(t, b.namespace, func(object string) bool { return strings.Contains(object, "-record") })
}

// exampleLimit is for a whole training run on a crowded machine.
const exampleLimit = 15 * time.Minute

var rewardLine = regexp.MustCompile(`(?m)^step \d+ reward (\d\.\d+)`)
