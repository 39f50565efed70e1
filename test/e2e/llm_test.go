package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// standsInForVLLM serves what `rayctl init llm` writes on a cluster with Ray's own ray.serve.llm. Of vLLM, which needs GPUs, there are only the names of its options
// (test/recipes/options/llm.txt): its engine, and its models of OpenAI's requests, are stand-ins. The GPUs have no devices. Shown are Ray's check of the options, that a
// replica has as many GPUs as its engine wants, that `serve apply` waits for the engine, and the routes.
func (u *user) standsInForVLLM(cluster string) {
	u.t.Helper()
	u.want(0, "init", "llm", "--dir", "llm", "--set", "gpus=2", "--set", "maxReplicas=1")
	held := filepath.Join(u.dir, "held")
	u.write("held/starts", "")
	for name, text := range vllmStandIn(u.t) {
		u.write("llm/"+name, text)
	}
	u.write("llm/wrong.yaml", strings.Replace(u.standInConfig(held), "max_model_len:", "max_model_length:", 1))
	contains(u.t, "a wrong option of vLLM", u.want(runstate.CodeStartFailed, "serve", "apply", "-f", "llm/wrong.yaml", cluster).err, "Unknown engine argument: max_model_length")

	u.write("llm/standin.yaml", u.standInConfig(held))
	apply := u.start(false, "serve", "apply", "-f", "llm/standin.yaml", cluster)
	eventually(u.t, "the engine's start", func() bool { return u.read("held/starts") != "" })
	status := decode[dashboardclient.ServeStatus](u.t, u.want(0, "serve", "status", cluster, "-o", "json").out)
	if state := status.Applications["llm"].Status; state != "DEPLOYING" || strings.Contains(apply.String(), "RUNNING") {
		u.t.Errorf("while the engine starts, the application is %q, and serve apply has printed %s", state, apply)
	}
	u.write("held/go", "")
	if code := apply.code(); code != 0 {
		u.t.Fatalf("serve apply: exit code %d: %s", code, apply)
	}
	contains(u.t, "the GPUs of the replica", u.read("held/starts"), "[[('CPU', 1.0), ('GPU', 1.0)], [('GPU', 1.0)]] max_model_len 32768\n")
	url := strings.TrimSuffix(serveURL(u.t, apply.String(), "llm"), "/")
	contains(u.t, "the models", get(u.t, url+"/v1/models"), `"id":"qwen3-8b"`)
	answer, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model": "qwen3-8b", "messages": [{"role": "user", "content": "hello"}]}`))
	if err != nil {
		u.t.Fatal(err)
	}
	defer answer.Body.Close()
	if said, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(said), `"content":"you said hello"`) {
		u.t.Errorf("the answer: %v, %s, %s", err, answer.Status, said)
	}
	u.want(0, "serve", "delete", cluster)
}

// standInConfig is the template's serve.yaml, whose replicas have the stand-ins. Their engine waits in the directory held.
func (u *user) standInConfig(held string) string {
	u.t.Helper()
	var config map[string]any
	if err := yaml.Unmarshal([]byte(u.read("llm/serve.yaml")), &config); err != nil {
		u.t.Fatal(err)
	}
	application := config["applications"].([]any)[0].(map[string]any)
	application["runtime_env"] = map[string]any{"working_dir": ".", "env_vars": map[string]any{"RAYLLM_VLLM_ENGINE_CLS": "standin.Engine", "HELD": held}}
	text, err := yaml.Marshal(config)
	if err != nil {
		u.t.Fatal(err)
	}
	return string(text)
}

// vllmStandIn are the modules that ray.serve.llm of Ray 2.60 imports and that are not installed, by their files. Ray takes OpenAI's models from SGLang where vLLM does not
// have them, and uses of the other two modules no more than this.
func vllmStandIn(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "recipes", "options", "llm.txt"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`^# Options of the wheel vllm (\S+), `).FindSubmatch(data)
	names := regexp.MustCompile(`(?m)^\w+$`).FindAllString(string(data), -1)
	if version == nil || len(names) < 100 {
		t.Fatalf("llm.txt: version %q, %d options", version, len(names))
	}
	return map[string]string{
		"vllm/engine/arg_utils.py": fmt.Sprintf("import dataclasses\nfrom importlib import metadata\nassert 'vllm[audio]==%s; extra == \"llm\"' in metadata.requires('ray')\n"+
			"AsyncEngineArgs = dataclasses.make_dataclass('AsyncEngineArgs', %q.split())\n", version[1], strings.Join(names, " ")),
		"vllm/entrypoints/launchers/cli_args.py":    "import dataclasses\nFrontendArgs = dataclasses.make_dataclass('FrontendArgs', [])\n",
		"sglang/srt/entrypoints/openai/protocol.py": openAIModels,
		"httpx.py":            "class HTTPStatusError(Exception): pass\n",
		"python_multipart.py": "__version__ = '1.0'\n",
		"standin.py":          engineStandIn,
	}
}

const openAIModels = `from pydantic import BaseModel, ConfigDict

class Model(BaseModel):
    model_config = ConfigDict(extra="allow")

class ChatCompletionRequest(Model):
    model: str
    messages: list

class ChatCompletionResponse(Model):
    choices: list

def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (Model,), {})
`

const engineStandIn = `import asyncio, os
from ray.util import get_current_placement_group
from ray.llm._internal.serve.core.configs.openai_api_models import ChatCompletionResponse

class Engine:
    def __init__(self, llm_config):
        self.config = llm_config

    async def start(self):
        with open(os.path.join(os.environ["HELD"], "starts"), "a") as file:
            file.write("%s max_model_len %s\n" % ([sorted(bundle.items()) for bundle in get_current_placement_group().bundle_specs], self.config.engine_kwargs["max_model_len"]))
        while not os.path.exists(os.path.join(os.environ["HELD"], "go")):
            await asyncio.sleep(0.1)

    async def check_health(self):
        pass

    def routing_stats(self):
        return {}

    async def chat(self, request, raw_request_info=None):
        said = "you said " + request.messages[-1]["content"]
        yield ChatCompletionResponse(choices=[{"index": 0, "message": {"role": "assistant", "content": said}}])
`
