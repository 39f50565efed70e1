package recipes

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// datasets stands for the package of Hugging Face: a data set of two rows, which writes JSON instead of Parquet.
const datasets = `
import json
class Rows(list):
    def map(self, change):
        return Rows({**row, **change(row)} for row in self)
    def to_parquet(self, path):
        with open(path, "w") as file:
            json.dump(self, file)
def load_dataset(source, name, split):
    return Rows([{"question": "How many in %s of %s?" % (split, name), "answer": "Two thousand less.\\n#### 1,234"}])
`

// TestVerlData: what verl's prepare.sh makes of GSM8K has the fields that verl's reward wants.
func TestVerlData(t *testing.T) {
	shared, bin := t.TempDir(), t.TempDir()
	dir := filesWith(t, "verl", "launcher=slurm", "shared="+shared)
	write(t, filepath.Join(bin, "datasets.py"), datasets)
	write(t, filepath.Join(bin, "verl.py"), "")
	write(t, filepath.Join(bin, "hf"), "#!/bin/sh\n")
	if err := os.MkdirAll(filepath.Join(shared, "models/Qwen/Qwen3-8B"), 0o700); err != nil { // which hf would have made
		t.Fatal(err)
	}
	command := exec.Command("bash", "prepare.sh")
	command.Dir, command.Env = dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PYTHONPATH="+bin)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("prepare.sh: %v\n%s", err, out)
	}
	for _, split := range []string{"train", "test"} {
		data, err := os.ReadFile(filepath.Join(shared, "data/gsm8k", split+".parquet"))
		if err != nil {
			t.Fatal(err)
		}
		var rows []struct {
			DataSource  string `json:"data_source"`
			Prompt      []struct{ Role, Content string }
			Ability     string
			RewardModel struct {
				Style       string
				GroundTruth string `json:"ground_truth"`
			} `json:"reward_model"`
		}
		if err := json.Unmarshal(data, &rows); err != nil || len(rows) != 1 || len(rows[0].Prompt) != 1 {
			t.Fatalf("%v in %s", err, data)
		}
		row := rows[0]
		want := "How many in " + split + ` of main? Let's think step by step and output the final answer after "####".`
		if row.DataSource != "openai/gsm8k" || row.Prompt[0].Role != "user" || row.Prompt[0].Content != want || row.Ability != "math" ||
			row.RewardModel.Style != "rule" || row.RewardModel.GroundTruth != "1234" {
			t.Errorf("%s: %+v", split, row)
		}
	}
}

// TestVerlOwn: a data directory and a reward of one's own are what verl gets, and prepare.sh looks for both, and loads no other data.
func TestVerlOwn(t *testing.T) {
	data, bin := t.TempDir(), t.TempDir()
	write(t, filepath.Join(bin, "hf"), "#!/bin/sh\necho \"hf $*\"\n")
	write(t, filepath.Join(bin, "verl.py"), "")
	model := t.TempDir()
	write(t, filepath.Join(model, "config.json"), "{}")
	dir := filesWith(t, "verl", "launcher=slurm", "data="+data, "reward=reward.py", "model="+model)
	args := driver(t, dir, nil)
	for _, want := range []string{"data.train_files=" + data + "/train.parquet", "data.val_files=" + data + "/test.parquet", "reward.custom_reward_function.path=reward.py"} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is not in %q", want, args)
		}
	}
	if wrong := unknown(args, options(t, "verl")); len(wrong) > 0 {
		t.Errorf("verl does not have %q", wrong)
	}
	for _, missing := range []struct{ path, says string }{
		{filepath.Join(dir, "reward.py"), "there is no file with the reward: reward.py\n"},
		{filepath.Join(data, "train.parquet"), "the data's directory has no train.parquet: " + data + "\n"},
		{filepath.Join(data, "test.parquet"), "the data's directory has no test.parquet: " + data + "\n"},
		{"", ""},
	} {
		command := exec.Command("bash", "prepare.sh")
		command.Dir, command.Env = dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PYTHONPATH="+bin)
		out, err := command.CombinedOutput()
		if string(out) != missing.says || (err == nil) != (missing.says == "") {
			t.Errorf("without %q: %v, %q, want %q", missing.path, err, out, missing.says)
		}
		if missing.path != "" {
			write(t, missing.path, "")
		}
	}
	plain := strings.Join(driver(t, filesWith(t, "verl", "launcher=slurm"), nil), " ")
	if strings.Contains(plain, "custom_reward_function") || !strings.Contains(plain, "data.train_files=/shared/data/gsm8k/train.parquet ") {
		t.Errorf("without data and reward: %s", plain)
	}
}

// TestOpenRLHFReward runs the file that a user begins with.
func TestOpenRLHFReward(t *testing.T) {
	dir := filesWith(t, "openrlhf", "launcher=slurm")
	write(t, filepath.Join(dir, "torch.py"), "def tensor(values): return tuple(values)\n")
	command := exec.Command("python3", "-c", `
import json, reward_func
prompt = "What is in \\boxed{7}? "
answers = ["\\boxed{7}", "\\boxed{1} or \\boxed{ 42 }", "\\boxed{42} or \\boxed{1}", "42"]
print(json.dumps(reward_func.reward_func([prompt + a for a in answers], [prompt] * 4, [42] * 4, more=1)))`)
	command.Dir = dir
	out, err := command.Output()
	const want = `{"rewards": [0.0, 1.0, 0.0, 0.0], "scores": [0.0, 1.0, 0.0, 0.0], "extra_logs": {"correct": [0.0, 1.0, 0.0, 0.0]}}`
	if err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("%v %s, want %s", err, out, want)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // some are programs
		t.Fatal(err)
	}
}
