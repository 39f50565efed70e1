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
		{Args: "advise --nodes 16 --tightly-coupled --bare-metal", Out: "control plane    slurm\n", Err: "next: `rayctl init train`"},
		{Args: "advise --nodes 16 --tightly-coupled --bare-metal --long-lived-services", Out: "partition nodes: Slurm pool + K8s pool"},
		{Args: "advise --nodes 8 --tightly-coupled -o json", Out: `"gangRequired": true`, JSON: true},
		{Args: "advise --nodes 8 --tightly-coupled --python-native --edge", Out: "against its own rule", Err: "next"},
		{Args: "advise --nodes 0", Code: runstate.CodeUsage, Err: "--nodes: 0 is not valid"},
		{Args: "advise", Code: runstate.CodeUsage, Err: "there is nothing to go by: give --nodes and what is true of --tightly-coupled, "},
		{Args: "advise", Files: file, Out: "control plane    slurm\n", Err: "using rayctl.yaml"},
		{Args: "advise -f rayctl.yaml --nodes 1 -o json", Files: file, Out: `"primary": "ray"`, JSON: true, Err: "using rayctl.yaml"},
		{Args: "advise ", Terminal: true, Stdin: "4\ny\ny\n\n\n\n\n", Out: "slurm", Err: "Do the nodes of a job wait for each other"},
		{Args: "advise  ", Terminal: true, Stdin: "many\n2\ny\n", Out: "2 nodes wait for each other", Err: "Write a number, such as 8: "},
		{Args: "advise -o table", Code: runstate.CodeUsage, Err: "there is no output format"},
	})
}
