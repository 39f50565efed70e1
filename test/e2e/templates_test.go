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
	u.runExample("up", "templates", "-f", "data/rayctl.yaml", "--output-dir", out)
	defer u.want(0, "down", "templates", "--now")

	u.want(0, "init", "basic", "--dir", "basic")
	contains(t, "the basic template", u.runExample("submit", "templates", "-f", "basic/rayctl.yaml").out, "sum of squares: 328350\nnodes: ")

	u.want(0, "init", "llm", "--dir", "llm")
	u.write("llm/check.py", llmCheck)
	contains(t, "the options of the template llm", u.runExample("submit", "templates", "--working-dir", "llm", "--", "python", "check.py").out, "checked qwen3-8b\n")

	u.stopped("train", "Checkpoint successfully created", 5) // by two workers: Ray Train has noted the first two, which it does after a worker has told of one
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

// llmCheck compares the template for LLMs, which needs GPUs, with Ray's own classes. ray.serve.llm itself imports vLLM: their module is read in its place.
const llmCheck = `import importlib.util, re, yaml
from ray.llm._internal.serve.core.configs.llm_config import LLMConfig
from ray.serve.config import AutoscalingConfig

(app,) = yaml.safe_load(open("serve.yaml"))["applications"]
module, function = app["import_path"].split(":")
assert re.search("^def " + function + r"\(", open(importlib.util.find_spec(module).origin).read(), re.M), app["import_path"]
(given,) = app["args"]["llm_configs"]
config = LLMConfig(**given)
scaling = given["deployment_config"]["autoscaling_config"]
assert set(scaling) <= set(AutoscalingConfig.__fields__), scaling
AutoscalingConfig(**scaling)
assert set(given["model_loading_config"]) <= set(type(config.model_loading_config).model_fields)
try:
    LLMConfig(**given, engine_kwarg={})
except ValueError:
    print("checked", config.model_id)
`

// stopped starts a template's job and stops it as soon as it has printed a text so many times.
func (u *user) stopped(template, text string, times int) {
	u.t.Helper()
	job := u.start(false, "submit", "templates", "-f", template+"/rayctl.yaml", "--submission-id", template)
	job.until(text, times)
	u.want(0, "stop", "templates", template)
	u.t.Logf("%s: exit code %d", template, job.code())
}
