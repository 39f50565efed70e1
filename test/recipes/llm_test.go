package recipes

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestEngineOptions: the template of LLM serving gives vLLM options that it has, and one wrong name is found.
func TestEngineOptions(t *testing.T) {
	known := options(t, "llm")
	for _, launcher := range []string{"slurm", "kuberay"} {
		dir := filesWith(t, "llm", "launcher="+launcher)
		if given := engineOptions(t, dir); len(given) < 2 || len(unknown(given, known)) > 0 {
			t.Errorf("engine_kwargs on %s are %q, of which vLLM does not have %q", launcher, given, unknown(given, known))
		}
		replace(t, filepath.Join(dir, "serve.yaml"), [2]string{"max_model_len", "max_model_length"})
		if wrong := unknown(engineOptions(t, dir), known); !slices.Equal(wrong, []string{"max_model_length"}) {
			t.Errorf("with max_model_length on %s, wrong are %q", launcher, wrong)
		}
	}
}

// engineOptions are the engine_kwargs of serve.yaml, as KEY=VALUE.
func engineOptions(t *testing.T, dir string) (all []string) {
	t.Helper()
	var config struct {
		Applications []struct {
			Args struct {
				Configs []struct {
					Engine map[string]any `yaml:"engine_kwargs"`
				} `yaml:"llm_configs"`
			}
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "serve.yaml"))
	if err == nil {
		err = yaml.Unmarshal(data, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, application := range config.Applications {
		for _, llm := range application.Args.Configs {
			all = append(all, flat("", llm.Engine)...)
		}
	}
	return all
}
