package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/pace"
)

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

// TestGRPO is `make demo`: the policy really learns, from near chance to 0.95.
func TestGRPO(t *testing.T) {
	u := exampleUser(t)
	learned(t, u.runExample("run", "-f", example(t, "grpo", "rayctl.yaml")), 0.95, 10)
}

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

// TestGRPOAlgorithm runs the example's own tests of advantages, clipping, KL and resuming.
func TestGRPOAlgorithm(t *testing.T) {
	u := exampleUser(t)
	r := u.runExample("run", "-f", example(t, "grpo", "rayctl.yaml"), "--set", "workers.rollout.replicas=0", "--", "python", "-m", "unittest", "discover", "tests")
	contains(t, "unittest's report", r.out, "\nOK")
}

var lostSteps = regexp.MustCompile(`restored step (\d+), steps lost: (\d+)`)

// TestTrainWarned: when the substrate announces the end (as Slurm does, by a signal to the keeper) the workers save by Ray Train's notice of a preemption,
// and the next run with the same output directory loses a step at most. After a run that has ended by itself, one with more epochs restores and loses none.
func TestTrainWarned(t *testing.T) {
	u := exampleUser(t)
	u.env = append(u.env, "XDG_STATE_HOME="+u.dir)
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

// elasticLines is what examples/elastic prints, with lines of Ray's own in between.
const elasticLines = `nodes at the start: 1\n.*nodes that did the work: 3\n.*nodes at the end: 1`

// TestElasticExample: nodes come for three tasks and go after them, and the receipt counts them for as long as they were there.
func TestElasticExample(t *testing.T) {
	r := exampleUser(t).runExample("run", "-v", "-f", example(t, "elastic", "rayctl.yaml"))
	if want := regexp.MustCompile(`(?s)` + elasticLines + `\n\z`); !want.MatchString(r.out) {
		t.Errorf("printed %q, want %s", r.out, want)
	}
	contains(t, "the receipt", r.err, "nodes   3: ")
}

// TestServeExample applies the Serve example, calls it over HTTP, and deletes it.
func TestServeExample(t *testing.T) {
	u := exampleUser(t)
	dir := filepath.Join(u.dir, "serve")
	if err := os.CopyFS(dir, os.DirFS(example(t, "serve"))); err != nil {
		t.Fatal(err)
	}
	u.runExample("up", "words", "-f", filepath.Join(dir, "rayctl.yaml"))
	applied := u.runExample("serve", "apply", "-f", filepath.Join(dir, "serve.yaml"), "words")
	contains(t, "the answer", post(t, serveURL(t, applied.err, "languages"), "Wo ist der Bahnhof?"), `"german"`)
	contains(t, "serve status", u.runExample("serve", "status", "words").out, "languages", "RUNNING")
	u.runExample("serve", "delete", "words")
	if out := u.runExample("serve", "status", "words", "-o", "json").out; strings.Contains(out, "RUNNING") {
		t.Errorf("after the deletion: %s", out)
	}
	token := decode[map[string]string](t, u.runExample("env", "words", "-o", "json").out)["RAY_AUTH_TOKEN_PATH"]
	u.want(0, "down", "words")
	if _, err := os.Stat(token); token == "" || !os.IsNotExist(err) {
		t.Errorf("the token file %q of a cluster that has ended: %v", token, err)
	}
}

func post(t *testing.T, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v, %v, %s", url, resp.Status, err, b)
	}
	return string(b)
}
