//go:build matrix

package e2e

import (
	"bytes"
	"context"
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
	killCount = flag.Int("kills.n", 10, "how often each template is killed")
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
			v := &victim{killed: k, user: exampleUser(t), random: rand.New(rand.NewPCG(seed, uint64(i)))}
			for round := 1; v.kills < *killCount; round++ {
				v.wholeRun(fmt.Sprintf("killed-%s-%d", k.template, round))
			}
			t.Logf("%s: killed %d times, %d of them with a checkpoint; %d resumed from it, at most %d steps were done again", k.template, v.kills, v.withCheckpoint, v.resumed, v.again)
			if v.withCheckpoint == 0 {
				t.Errorf("%s: no kill came after a checkpoint", k.template)
			}
		})
	}
}

// progress is how far the trials had come when an attempt was killed.
type progress struct{ saved, noted map[string]int }

// victim counts what has happened to the runs of one template.
type victim struct {
	killed
	*user
	random                         *rand.Rand
	start                          time.Duration // from the begin of the first driver to its first checkpoint
	kills, withCheckpoint, resumed int
	again                          int // the most steps of a trial that were saved and done again
}

// wholeRun makes the template's files, runs them, kills until it has killed often enough or the run ends, and checks each attempt.
func (v *victim) wholeRun(name string) {
	dir, out := filepath.Join(v.dir, name), filepath.Join(v.dir, name, "out")
	init := []string{"init", v.template, "--dir", dir}
	for _, set := range v.set {
		init = append(init, "--set", set)
	}
	v.want(0, init...)
	temporary, err := os.MkdirTemp("", "k") // short, for Ray's sockets
	if err != nil {
		v.t.Fatal(err)
	}
	defer os.RemoveAll(temporary)
	ctx, cancel := context.WithTimeout(v.t.Context(), time.Hour)
	defer cancel()
	run := startScreen(v.t, v.command(ctx, "run", "-f", filepath.Join(dir, "rayctl.yaml"), "--name", name, "--output-dir", out, "--set", "local.tmpDir="+temporary,
		"--set", "job.env.RAY_DEDUP_LOGS=0", "--set", "job.restarts.driver=100", "--set", "job.restarts.nodeFailure=100"), false)
	defer func() { v.do("down", name, "--now") }()
	ended := make(chan int, 1)
	go func() { ended <- run.code() }()
	var before []progress // of each attempt that was killed
	code, attempt := -1, 1
	for v.kills < *killCount {
		if code = v.untilDriver(name, attempt, ended); code >= 0 {
			break
		}
		if code = v.moment(out, ended); code >= 0 {
			break
		}
		came, survived := v.kill(name, attempt, out)
		if !survived {
			before = append(before, came)
			attempt++
		}
	}
	if code < 0 {
		code = <-ended
	}
	if code != 0 || !strings.Contains(run.String(), v.done) {
		v.t.Fatalf("%s ended with exit code %d: %s", name, code, tail(run.String()))
	}
	v.wentOn(name, before)
	v.nothingLeft(name, temporary)
}

// untilDriver waits for the driver of an attempt. It returns the exit code if the run ends, else -1.
func (v *victim) untilDriver(name string, attempt int, ended <-chan int) int {
	for end := time.Now().Add(2 * limit); time.Now().Before(end); {
		if driverProcess(v.t, name, strconv.Itoa(attempt), v.script) != 0 {
			return -1
		}
		select {
		case code := <-ended:
			return code
		case <-time.After(50 * time.Millisecond):
		}
	}
	v.t.Fatalf("attempt %d of %s has no driver; %s", attempt, name, v.do("status", name).out)
	return -1
}

// moment waits for a random one: of four one in the time that the first attempt needed to its first checkpoint, and three in the seconds after the attempt has saved.
func (v *victim) moment(out string, ended <-chan int) int {
	begun, before := time.Now(), fmt.Sprint(v.saved(v.t, out))
	early := v.start > 0 && v.random.IntN(4) == 0
	for !early && fmt.Sprint(v.saved(v.t, out)) == before {
		select {
		case code := <-ended:
			return code
		case <-time.After(20 * time.Millisecond):
		}
	}
	within := 5 * time.Second
	if early {
		within = v.start
	}
	if v.start == 0 {
		v.start = time.Since(begun)
	}
	select {
	case code := <-ended:
		return code
	case <-time.After(time.Duration(v.random.Int64N(int64(within)))):
		return -1
	}
}

// kill kills the driver or a node. It returns how far the attempt had come, and whether it goes on, because there was nothing to kill, or because the node was started again
// before it had a part in it.
func (v *victim) kill(name string, attempt int, out string) (came progress, survived bool) {
	what, driver := "the driver", driverProcess(v.t, name, strconv.Itoa(attempt), v.script)
	pid, nodes := driver, raylets(v.t, name)
	if v.random.IntN(2) == 1 && len(nodes) > 0 {
		pid = nodes[v.random.IntN(len(nodes))]
		what = fmt.Sprintf("one of %d nodes", len(nodes))
	}
	came.noted = v.noted(v.t, out)
	if driver == 0 || syscall.Kill(pid, syscall.SIGKILL) != nil {
		return came, true // the run is over, or the attempt has ended by itself
	}
	came.saved = v.saved(v.t, out)
	eventually(v.t, "the end of what was killed", func() bool {
		if pid == driver || driverProcess(v.t, name, strconv.Itoa(attempt), v.script) == 0 {
			return true
		}
		now := raylets(v.t, name)
		survived = len(now) >= len(nodes) && !slices.Contains(now, pid)
		return survived
	})
	v.t.Logf("%s, attempt %d: %s killed, with %v saved and %v noted; the attempt survived: %t", name, attempt, what, came.saved, came.noted, survived)
	if survived {
		return came, true
	}
	v.kills++
	if len(came.noted) > 0 {
		v.withCheckpoint++
	}
	return came, false
}

// raylets are the processes of a run's nodes.
func raylets(t *testing.T, name string) []int {
	t.Helper()
	return processesOf(t, name, func(words []string, _ []byte) bool { return filepath.Base(words[0]) == "raylet" })
}

// wentOn checks where the attempts began: after each kill, the next one that came so far.
func (v *victim) wentOn(name string, before []progress) {
	began := make([]map[string]int, len(before)+2)
	for i := len(before); i >= 0; i-- {
		began[i] = v.beginnings(name, i+1)
		if i > 0 {
			v.t.Logf("%s, attempt %d: saved %v, noted %v, began at %v", name, i+1, before[i-1].saved, before[i-1].noted, began[i])
		}
		if len(began[i]) == 0 {
			began[i] = began[i+1]
		}
	}
	for i, came := range before {
		lost := false // an attempt that finds all trials done begins none
		for trial, step := range began[i+1] {
			lost = lost || step < came.noted[trial]
			v.again = max(v.again, came.saved[trial]-step)
		}
		switch {
		case lost:
			v.t.Errorf("%s: after kill %d, with %v saved and %v noted, it began at %v", name, i+1, came.saved, came.noted, began[i+1])
		case len(came.noted) > 0:
			v.resumed++
		}
	}
}

// beginnings are the steps at which an attempt began, by trial.
func (v *victim) beginnings(name string, attempt int) map[string]int {
	began := map[string]int{}
	for _, m := range v.begins.FindAllStringSubmatch(v.do("logs", name, "--attempt", strconv.Itoa(attempt)).out, -1) {
		if _, found := began[m[1]]; !found {
			began[m[1]], _ = strconv.Atoi(m[2])
		}
	}
	return began
}

// nothingLeft asks rayctl, the process table and the disk.
func (v *victim) nothingLeft(name, temporary string) {
	if list := v.want(0, "ls").out; strings.Contains(list, name) {
		v.t.Errorf("%s is still there: %s", name, list)
	}
	if left := processesOf(v.t, name, func([]string, []byte) bool { return true }); len(left) > 0 {
		v.t.Errorf("processes of %s: %v", name, left)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		v.t.Errorf("directories of %s: %v, %v", name, left, err)
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
			Last struct {
				Step       int
				Checkpoint string `json:"checkpoint_dir_name"`
			} `json:"last_result"`
		}
		if json.Unmarshal([]byte(texts[0]), &trial) != nil || json.Unmarshal([]byte(texts[1]), &run) != nil || run.Last.Checkpoint == "" {
			continue // one that has not begun has -Infinity in it
		}
		if found == nil {
			found = map[string]int{}
		}
		found[trial.ID] = run.Last.Step
	}
	return found
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
