package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestTemplates runs what `rayctl init` writes for Ray's libraries, on one cluster. The job of each is stopped in its midst, and the next one goes on from what
// the first has left in the output directory.
func TestTemplates(t *testing.T) {
	u := exampleUser(t)
	u.want(0, "init", "data", "--dir", "data")
	u.want(0, "init", "train", "--dir", "train", "--set", "steps=100000")
	u.want(0, "init", "tune", "--dir", "tune", "--set", "trials=8", "--set", "steps=200")
	out := filepath.Join(u.dir, "out")
	// FastAPI as the template llm needs it: a newer one reads the routes' functions where they are called, which Ray 2.60 has prepared in another process (ray-project/ray#64475).
	u.runExample("up", "templates", "-f", "data/rayctl.yaml", "--output-dir", out, "--set", "workers.reader.gpus=2", "--set", "env.CUDA_VISIBLE_DEVICES=0,1,2,3",
		"--set", `local.packages=["ray[data,serve,train,tune]", "fastapi<0.137"]`,
		"--set", "env.RAY_worker_niceness=0") // with Ray's 15, Serve's controller and proxy wait for minutes beside other tests: imports of theirs take seconds of processor time
	defer u.want(0, "down", "templates", "--now")

	u.want(0, "init", "basic", "--dir", "basic")
	contains(t, "the basic template", u.runExample("submit", "templates", "-f", "basic/rayctl.yaml").out, "sum of squares: 328350\nnodes: ")

	u.standsInForVLLM("templates")

	u.stopped("train", "Checkpoint successfully created", 5) // Ray Train notes a checkpoint after all workers have told of it
	again := u.runExample("submit", "templates", "-f", "train/rayctl.yaml", "--", "python", "train.py", "--steps", "1")
	contains(t, "the training that goes on", again.out, "fitted:")
	if strings.Contains(again.out, "beginning at step 0\n") || !strings.Contains(again.out, "beginning at step ") {
		t.Errorf("the training began anew: %s", tail(again.out))
	}

	u.stopped("tune", " completed after 200 iterations", 1)
	contains(t, "the sweep that goes on", u.runExample("submit", "templates", "-f", "tune/rayctl.yaml").out, "going on with the trials in "+out, "8 trials, the best has rate ")

	u.stopped("data", "MapBatches(Model)", 1)
	contains(t, "the inference that goes on", u.runExample("submit", "templates", "-f", "data/rayctl.yaml").out, "\n1000 rows are done\n")
}

// stopped starts a template's job and stops it as soon as it has printed a text so many times.
func (u *user) stopped(template, text string, times int) {
	u.t.Helper()
	job := u.start(false, "submit", "templates", "-f", template+"/rayctl.yaml", "--submission-id", template)
	job.until(text, times)
	u.want(0, "stop", "templates", template)
	u.t.Logf("%s: exit code %d", template, job.code())
}
