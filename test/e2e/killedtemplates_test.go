//go:build matrix

package e2e

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	killCount = flag.Int("kills.n", 10, "how often each template is killed after its first checkpoint; earlier kills come in addition")
	killSeed  = flag.Uint64("kills.seed", 0, "of the moments and of what is killed; 0: another one each time")
)

// killed is a template whose runs are killed.
type killed struct {
	template, script string
	set              []string       // for init
	begins           *regexp.Regexp // what an attempt prints where it begins: the trial, if there are some, and the step
	done             string         // what the last attempt prints
	// saved are the steps of the newest checkpoints in the output directory, by trial; noted are those from which the framework promises to go on.
	saved, noted func(t *testing.T, out string) map[string]int
}

var killedTemplates = []killed{
	{"grpo", "grpo.py", []string{"steps=4000"}, regexp.MustCompile(`(?m)^()beginning at step (\d+)$`), "step 3999 reward 1.00", savedByGRPO, savedByGRPO},
	{"train", "train.py", []string{"steps=60"}, regexp.MustCompile(`(?m)()beginning at step (\d+)$`), "fitted: ", savedByTrain, notedByTrain},
	{"tune", "tune_rate.py", []string{"trials=4", "steps=60"}, regexp.MustCompile(`(?m)trial (\S+) begins at step (\d+)$`), "4 trials, the best has rate ", savedByTune, notedByTune},
	{"rllib", "train.py", []string{"iterations=15"}, regexp.MustCompile(`(?m)^()beginning at iteration (\d+)$`), "iteration 15 return ", savedByRLlib, savedByRLlib},
}

// TestKilledTemplates runs templates as a user does, and kills the driver or a node at random moments. Each next attempt goes on from the checkpoint that the framework had noted, each
// run ends well, and nothing is left. It does not run in CI: `make kill-templates`.
func TestKilledTemplates(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	for i, k := range killedTemplates {
		t.Run(k.template, func(t *testing.T) {
			runs := &killedRuns{killed: k, user: exampleUser(t), random: rand.New(rand.NewPCG(seed, uint64(i)))}
			if k.template == "rllib" {
				runs.more = runs.withTorch()
			}
			for round := 1; runs.withCheckpoint < *killCount; round++ {
				runs.wholeRun(fmt.Sprintf("killed-%s-%d", k.template, round))
			}
			t.Logf("%s: killed %d times, %d of them with a checkpoint; %d resumed from it, at most %d steps were done again", k.template, runs.kills, runs.withCheckpoint, runs.resumed, runs.again)
		})
	}
}

// progress is how far the trials had come when an attempt was killed.
type progress struct{ saved, noted map[string]int }

// killedRuns counts what has happened to the runs of one template.
type killedRuns struct {
	killed
	*user
	more                           []string // for run
	random                         *rand.Rand
	start                          time.Duration // from the begin of the first driver to its first checkpoint
	kills, withCheckpoint, resumed int
	again                          int // the most steps of a trial that were saved and done again
}

// wholeRun makes the template's files, runs them, kills until it has killed often enough or the run ends, and checks each attempt.
func (k *killedRuns) wholeRun(name string) {
	dir, out := filepath.Join(k.dir, name), filepath.Join(k.dir, name, "out")
	init := []string{"init", k.template, "--dir", dir}
	for _, set := range k.set {
		init = append(init, "--set", set)
	}
	k.want(0, init...)
	temporary, err := os.MkdirTemp("", "k") // short, for Ray's sockets
	if err != nil {
		k.t.Fatal(err)
	}
	defer os.RemoveAll(temporary)
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Hour)
	defer cancel()
	run := startScreen(k.t, k.command(ctx, append([]string{"run", "-f", filepath.Join(dir, "rayctl.yaml"), "--name", name, "--output-dir", out, "--set", "local.tmpDir=" + temporary,
		"--set", "job.env.RAY_DEDUP_LOGS=0", "--set", "job.restarts.driver=100", "--set", "job.restarts.nodeFailure=100"}, k.more...)...), false)
	defer func() { k.do("down", name, "--now") }()
	ended := make(chan int, 1)
	go func() { ended <- run.code() }()
	var before []progress // of each attempt that was killed
	code, attempt := -1, 1
	for k.withCheckpoint < *killCount {
		if code = k.untilDriver(name, attempt, ended); code >= 0 {
			break
		}
		if code = k.moment(out, ended); code >= 0 {
			break
		}
		came, survived := k.kill(name, attempt, out)
		if !survived {
			before = append(before, came)
			attempt++
		}
	}
	if code < 0 {
		code = <-ended
	}
	if code != 0 || !strings.Contains(run.String(), k.done) {
		k.t.Fatalf("%s ended with exit code %d: %s", name, code, tail(run.String()))
	}
	k.wentOn(name, before)
	k.nothingLeft(name, temporary)
}

// untilDriver waits for the driver of an attempt. It returns the exit code if the run ends, else -1.
func (k *killedRuns) untilDriver(name string, attempt int, ended <-chan int) int {
	for end := time.Now().Add(2 * limit); time.Now().Before(end); {
		if driverProcess(k.t, name, strconv.Itoa(attempt), k.script) != 0 {
			return -1
		}
		select {
		case code := <-ended:
			return code
		case <-time.After(50 * time.Millisecond):
		}
	}
	k.t.Fatalf("attempt %d of %s has no driver; %s", attempt, name, k.do("status", name).out)
	return -1
}

// moment waits for a random one: of four one in the time that the first attempt needed to its first checkpoint, and three in the seconds after the attempt has saved.
func (k *killedRuns) moment(out string, ended <-chan int) int {
	begun, before := time.Now(), fmt.Sprint(k.saved(k.t, out))
	early := k.start > 0 && k.random.IntN(4) == 0
	for !early && fmt.Sprint(k.saved(k.t, out)) == before {
		select {
		case code := <-ended:
			return code
		case <-time.After(20 * time.Millisecond):
		}
	}
	within := 5 * time.Second
	if early {
		within = k.start
	}
	if k.start == 0 {
		k.start = time.Since(begun)
	}
	select {
	case code := <-ended:
		return code
	case <-time.After(time.Duration(k.random.Int64N(int64(within)))):
		return -1
	}
}

// kill kills the driver or a node. It returns how far the attempt had come, and whether it goes on, because there was nothing to kill, or because the node was started again
// before it had a part in it.
func (k *killedRuns) kill(name string, attempt int, out string) (came progress, survived bool) {
	what, driver := "the driver", driverProcess(k.t, name, strconv.Itoa(attempt), k.script)
	pid, nodes := driver, raylets(k.t, name)
	if k.random.IntN(2) == 1 && len(nodes) > 0 {
		pid = nodes[k.random.IntN(len(nodes))]
		what = fmt.Sprintf("one of %d nodes", len(nodes))
	}
	came.noted = k.noted(k.t, out)
	if driver == 0 || syscall.Kill(pid, syscall.SIGKILL) != nil {
		return came, true // the run is over, or the attempt has ended by itself
	}
	came.saved = k.saved(k.t, out)
	eventually(k.t, "the end of what was killed", func() bool {
		if pid == driver || driverProcess(k.t, name, strconv.Itoa(attempt), k.script) == 0 {
			return true
		}
		now := raylets(k.t, name)
		survived = len(now) >= len(nodes) && !slices.Contains(now, pid)
		return survived
	})
	k.t.Logf("%s, attempt %d: %s killed, with %v saved and %v noted; the attempt survived: %t", name, attempt, what, came.saved, came.noted, survived)
	if survived {
		return came, true
	}
	k.kills++
	if len(came.noted) > 0 {
		k.withCheckpoint++
	}
	return came, false
}

// raylets are the processes of a run's nodes.
func raylets(t *testing.T, name string) []int {
	t.Helper()
	return processesOf(t, name, func(words []string, _ []byte) bool { return filepath.Base(words[0]) == "raylet" })
}

// wentOn checks where the attempts began: after each kill, the next one that came so far.
func (k *killedRuns) wentOn(name string, before []progress) {
	began := make([]map[string]int, len(before)+2)
	for i := len(before); i >= 0; i-- {
		began[i] = k.beginnings(name, i+1)
		if i > 0 {
			k.t.Logf("%s, attempt %d: saved %v, noted %v, began at %v", name, i+1, before[i-1].saved, before[i-1].noted, began[i])
		}
		if len(began[i]) == 0 {
			began[i] = began[i+1]
		}
	}
	for i, came := range before {
		lost := false // an attempt that finds all trials done begins none
		for trial, step := range began[i+1] {
			lost = lost || step < came.noted[trial]
			k.again = max(k.again, came.saved[trial]-step)
		}
		switch {
		case lost:
			k.t.Errorf("%s: after kill %d, with %v saved and %v noted, it began at %v", name, i+1, came.saved, came.noted, began[i+1])
		case len(came.noted) > 0:
			k.resumed++
		}
	}
}

// beginnings are the steps at which an attempt began, by trial.
func (k *killedRuns) beginnings(name string, attempt int) map[string]int {
	began := map[string]int{}
	for _, m := range k.begins.FindAllStringSubmatch(k.do("logs", name, "--attempt", strconv.Itoa(attempt)).out, -1) {
		if _, found := began[m[1]]; !found {
			began[m[1]], _ = strconv.Atoi(m[2])
		}
	}
	return began
}

// nothingLeft asks rayctl, the process table and the disk.
func (k *killedRuns) nothingLeft(name, temporary string) {
	if list := k.want(0, "ls").out; strings.Contains(list, name) {
		k.t.Errorf("%s is still there: %s", name, list)
	}
	if left := processesOf(k.t, name, func([]string, []byte) bool { return true }); len(left) > 0 {
		k.t.Errorf("processes of %s: %v", name, left)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		k.t.Errorf("directories of %s: %v, %v", name, left, err)
	}
}

func savedByGRPO(t *testing.T, out string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "checkpoint.json"))
	if err != nil {
		return nil
	}
	state := decode[[]any](t, string(text))
	return map[string]int{"": int(state[0].(float64))}
}

func savedByTrain(t *testing.T, out string) map[string]int {
	t.Helper()
	return newest("", filepath.Join(out, "train", "checkpoint_*", "state.json"), nil)
}

// notedByTrain: Ray Train goes on from the newest checkpoint of which all workers have told, and writes this into a file of its own.
func notedByTrain(t *testing.T, out string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "train", "checkpoint_manager_snapshot.json"))
	var state struct {
		Latest struct {
			Dir string `json:"checkpoint_dir_name"`
		} `json:"latest_checkpoint_result"`
	}
	if err != nil || json.Unmarshal(text, &state) != nil || state.Latest.Dir == "" {
		return nil
	}
	return newest("", filepath.Join(out, "train", state.Latest.Dir, "state.json"), nil)
}

// savedByTune: the directory of a trial is train_<id>_<its number>_<parameters>.
func savedByTune(t *testing.T, out string) map[string]int {
	t.Helper()
	found := map[string]int{}
	trials, _ := filepath.Glob(filepath.Join(out, "tune", "train_*"))
	for _, dir := range trials {
		words := strings.Split(filepath.Base(dir), "_")
		if len(words) > 2 {
			found = newest(words[1]+"_"+words[2], filepath.Join(dir, "checkpoint_*", "state.json"), found)
		}
	}
	return found
}

// notedByTune: Ray Tune goes on from the newest of its notes of all trials.
func notedByTune(t *testing.T, out string) map[string]int {
	t.Helper()
	notes, _ := filepath.Glob(filepath.Join(out, "tune", "experiment_state-*.json"))
	if len(notes) == 0 {
		return nil
	}
	text, err := os.ReadFile(slices.Max(notes))
	if err != nil {
		return nil
	}
	var trials [][2]string // JSON in JSON: what a trial is, and how far it is
	decoder := json.NewDecoder(bytes.NewReader(text))
	for range 2 { // {"trial_data":
		if _, err := decoder.Token(); err != nil {
			return nil // it is being written
		}
	}
	if decoder.Decode(&trials) != nil {
		return nil
	}
	var found map[string]int
	for _, texts := range trials {
		var trial struct {
			ID string `json:"trial_id"`
		}
		var run struct {
			Checkpoints struct{ Value string } `json:"checkpoint_manager"` // a pickle. The last result in the same note may be one whose checkpoint is not noted yet.
		}
		if json.Unmarshal([]byte(texts[0]), &trial) != nil || json.Unmarshal([]byte(texts[1]), &run) != nil {
			continue // one that has not begun has -Infinity in it
		}
		pickle, err := hex.DecodeString(run.Checkpoints.Value)
		if err != nil {
			t.Fatalf("the note of trial %s: %v", trial.ID, err)
		}
		named := notedCheckpoint.FindAllString(string(pickle), -1)
		if len(named) > 0 {
			found = newest(trial.ID, filepath.Join(out, "tune", "train_"+trial.ID+"_*", slices.Max(named), "state.json"), found)
		}
	}
	return found
}

var notedCheckpoint = regexp.MustCompile(`checkpoint_\d{6}`)
