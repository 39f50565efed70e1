package advise

import (
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	_ "github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	_ "github.com/rayctl/rayctl/local/localspec"
	_ "github.com/rayctl/rayctl/slurm/slurmspec"
)

// TestLines: command lines of advise.
func TestLines(t *testing.T) {
	file := map[string]string{"rayctl.yaml": "launcher: slurm\nworkers: [{name: w, replicas: 4, gpus: 8}]\njob: {entrypoint: python a.py}\n"}
	apptest.Run(t, apptest.Tree(New), func() launcher.Launcher { return (&apptest.Launcher{}).With() }, []apptest.Line{
		{Args: "advise --nodes 16 --tightly-coupled --bare-metal", Out: "control plane    slurm\n", Err: "next: `rayctl init torchrun --launcher slurm --set nodes=16 --set gpus=8`; `rayctl run --set workers.trainer.cpus=0 --set slurm.exclusive=true`\n"},
		{Args: "advise --nodes 16 --tightly-coupled --bare-metal --long-lived-services", Out: "partition nodes: Slurm pool + K8s pool"},
		{Args: "advise --nodes 8 --tightly-coupled -o json", Out: `"gangRequired": true`, JSON: true},
		{Args: "advise --nodes 8 --python-native -o json", Out: "\"primary\": \"ray\",\n  \"addon\": \"KubeRay on kubernetes\",\n  \"hybrid\": \"\",\n  \"gangRequired\": false,\n", JSON: true},
		{Args: "advise --nodes 8 --tightly-coupled --python-native --edge", Out: "against its own rule", Err: "next"},
		{Args: "advise --nodes 0", Code: runstate.CodeUsage, Err: "--nodes: 0 is not valid"},
		{Args: "advise", Code: runstate.CodeUsage, Err: "there is nothing to go by: give --nodes, --gpus and what is true of --tightly-coupled, "},
		{Args: "advise", Files: file, Out: "control plane    slurm\n", Err: "next: `rayctl run`\n"},
		{Args: "advise -f rayctl.yaml --set slurm.account=a$b", Files: file, Out: "launches it as it is", Err: "next: `rayctl run --file rayctl.yaml --set 'slurm.account=a$b'`\n"},
		{Args: "advise -f rayctl.yaml -f other.yaml", Files: file, Code: runstate.CodeUsage, Err: `--file was given twice: "rayctl.yaml" and "other.yaml"`},
		{Args: "advise -f rayctl.yaml --nodes 1 -o json", Files: file, Out: `"primary": "ray"`, JSON: true, Err: "using rayctl.yaml"},
		{Args: "advise ", Terminal: true, Stdin: "4\ny\ny\n\n\n\n\n", Out: "slurm", Err: "Do the nodes of a job wait for each other"},
		{Args: "advise  ", Terminal: true, Stdin: "many\n2\ny\n", Out: "2 nodes wait for each other", Err: "Write a number, such as 8: "},
		{Args: "advise   ", Terminal: true, Stdin: "4\ny\ny\n\n\n\n\nsome\n2\n", Out: "replicas: 4, gpus: 2", Err: "How many GPUs has a node?"},
		{Args: "advise --edge", Out: "launcher         local\n", Err: "next: `rayctl init basic --launcher local --set nodes=1`\n"},
		{Args: "advise --gpus -1", Code: runstate.CodeUsage, Err: "--gpus: -1 is not valid: a node has 0 GPUs or more"},
		{Args: "advise -f -", Stdin: "launcher: slurm\nworkers: [{name: w, replicas: 2, gpus: 4}]\njob: {entrypoint: a}\n", Out: "launcher         slurm\n", Err: "next"},
		{Args: "advise -o table", Code: runstate.CodeUsage, Err: "there is no output format"},
	})
}
