package cmd

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
)

// otherVerbs are verbs of other tools (docker, kubectl, Slurm, Ray) that are no verb of rayctl, and what to type. A verb that means the same as one of
// rayctl's is an alias of it instead.
var otherVerbs = map[string]string{
	"get":       "`rayctl ls` lists clusters, `rayctl status NAME` shows one with its nodes, `rayctl jobs NAME` lists its jobs",
	"attach":    "`rayctl logs -f NAME` follows a run, `rayctl exec NAME` opens a shell on its head",
	"kill":      "`rayctl down --now NAME` ends a cluster at once, `rayctl stop JOB` stops a job",
	"nodes":     "`rayctl status NAME` lists the nodes",
	"watch":     "`rayctl status -w NAME` shows each change, `rayctl logs -f NAME` the output",
	"tail":      "`rayctl logs -f NAME` follows the output, `rayctl logs --tail 10 NAME` shows its end",
	"login":     "rayctl uses your kubeconfig, your ssh and your Slurm as they are; `rayctl doctor` checks them",
	"start":     "`rayctl up` makes a cluster that stays, `rayctl run -- COMMAND` runs one job on a cluster of its own",
	"create":    "`rayctl up` makes a cluster that stays, `rayctl run -- COMMAND` runs one job on a cluster of its own",
	"launch":    "`rayctl run -- COMMAND` runs one job on a cluster of its own, `rayctl up` makes a cluster that stays",
	"plan":      "`rayctl render` shows what a launch would create",
	"apply":     "`rayctl up` makes the cluster of the file, `rayctl serve apply` deploys applications",
	"templates": "`rayctl init` writes a cluster file and a program of a template",
	"share":     "`rayctl logs NAME > FILE`, `rayctl cp NAME: DIR` and `rayctl status -o json NAME` give a run's output, results and receipt, for example to a colleague, and a group can read a run in the directory of job.shareDir (`rayctl logs DIR/NAME`)",
	"cluster":   "`rayctl ls` lists clusters, `rayctl up` makes one",
	"show":      "`rayctl status NAME` shows one cluster, `rayctl ls` lists them",
	"resize":    "`rayctl scale NAME GROUP=N` changes the size of an elastic group",
	"terminate": "`rayctl down NAME` ends a cluster",
	"destroy":   "`rayctl down NAME` ends a cluster, `rayctl down --all` all of yours",
	"renew":     "`rayctl extend NAME +2h` lets a cluster live longer",
	"autostop":  "lifetime.idle of the cluster file, or `rayctl extend NAME --idle 10m`, ends a cluster that nobody uses",
	"url":       "`rayctl dashboard NAME` gives a URL of Ray's dashboard, `rayctl env NAME` the addresses for Ray's own tools",
	"address":   "`rayctl env NAME` prints the addresses for Ray's own tools",
	"retry":     "`rayctl run --restarts N` starts a driver that failed again",
	"receipt":   "`rayctl status -o json NAME` shows what a run has cost, `rayctl run --receipt FILE` writes it",
	"artifacts": "`rayctl cp NAME: DIR` copies what a run left in its output directory",
	"output":    "`rayctl logs NAME` shows the output, `rayctl cp NAME: DIR` copies what a run left in its output directory",
	"lint":      "`rayctl validate` checks the cluster file, `rayctl doctor` what it needs",
	"check":     "`rayctl validate` checks the cluster file, `rayctl doctor` what it needs",
	"clusters":  "`rayctl ls` lists clusters, `rayctl history` those that have ended",
	"ui":        "`rayctl dashboard NAME` gives a URL of Ray's dashboard",
	"dash":      "`rayctl dashboard NAME` gives a URL of Ray's dashboard",
	"result":    "`rayctl cp NAME: DIR` copies what a run left in its output directory, and `rayctl status NAME` shows how it ended",
	"results":   "`rayctl cp NAME: DIR` copies what a run left in its output directory",
	"outputs":   "`rayctl cp NAME: DIR` copies what a run left in its output directory",
	"download":  "`rayctl cp NAME: DIR` copies what a run left in its output directory, NAME:PATH a file",
	"upload":    "`rayctl cp FILE NAME:PATH` copies a file to a cluster, --working-dir sends a directory with a job",
	"follow":    "`rayctl logs -f NAME` follows the output",
	"monitor":   "`rayctl top -w NAME` shows what the nodes do, `rayctl status -w NAME` each change",
	"cost":      "`rayctl history` lists what ended runs have cost, `rayctl status NAME` what one has",
	"usage":     "`rayctl history` lists what ended runs have cost, `rayctl status NAME` what one has",
	"prune":     "`rayctl gc` removes leftovers and old records, `rayctl down NAME` ends a cluster",
	"clean":     "`rayctl gc` removes leftovers and old records, `rayctl down NAME` ends a cluster",
	"restart":   "`rayctl up NAME --recreate` replaces a cluster, `rayctl run` runs a job again",
	"inspect":   "`rayctl status NAME` shows one cluster",
	"config":    "`rayctl render --origin` shows every setting and where it comes from",
	"train":     "`rayctl run -- python train.py` runs a script, `rayctl init train` writes one to begin with",
	"tune":      "`rayctl run -- python tune.py` runs a script",
	"new":       "`rayctl init` writes a cluster file and a script to begin with",
	"examples":  "`rayctl init --help` lists templates",
	"notebook":  "in a shell with `eval \"$(rayctl env NAME)\"` start your notebook: its ray.init() connects to the cluster; in one that runs, `rayctl env --help` shows what to run before import ray",
	"jupyter":   "in a shell with `eval \"$(rayctl env NAME)\"` start jupyter: ray.init() of a notebook connects to the cluster",
	"queue":     "`rayctl ls` lists the clusters that wait, `rayctl status NAME` shows why one waits",
	"connect":   "`rayctl env NAME` prints the variables for Ray's own tools, `rayctl exec NAME` opens a shell on its head",
}

// addOtherVerbs adds a hidden command for each word that no command of root has. It names the right one.
func addOtherVerbs(root *cobra.Command) {
	for word, hint := range otherVerbs {
		if !slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == word || c.HasAlias(word) }) {
			root.AddCommand(app.OtherVerb(word, hint))
		}
	}
}
