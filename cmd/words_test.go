package cmd

import (
	"context"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/docs"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestVerbsOfOtherTools: each verb that fingers know from docker, kubectl, Slurm and Ray is one here, or the right one is named.
func TestVerbsOfOtherTools(t *testing.T) {
	for word, means := range map[string]string{
		"log": "logs", "ps": "ls", "list": "ls", "ssh": "exec", "shell": "exec", "rm": "down", "delete": "down", "cancel": "stop", "info": "status", "describe": "status",
		"wait": "wait", "events": "events", "validate": "validate", "job": "jobs", "job list": "jobs list", "serve deploy": "serve apply", "job stop x": "jobs stop", "jobs cancel x": "jobs stop", "serve shutdown": "serve delete",
	} {
		a, _, _ := apptest.New()
		c, _, err := NewRoot(a).Find(strings.Fields(word))
		if err != nil || c.CommandPath() != "rayctl "+means {
			t.Errorf("%s is %s, %v; want %s", word, c.CommandPath(), err, means)
		}
	}
	for line, want := range map[string]string{
		"get clusters":       "`rayctl ls` lists clusters",
		"attach dev -f":      "`rayctl logs -f NAME` follows a run, `rayctl exec NAME` opens a shell",
		"kill dev":           "`rayctl down --now NAME` ends a cluster at once, `rayctl stop JOB` stops a job",
		"nodes":              "`rayctl status NAME` lists the nodes",
		"watch dev":          "`rayctl status -w NAME`",
		"tail -n 5 dev":      "`rayctl logs -f NAME`",
		"login":              "`rayctl doctor` checks them",
		"start --head":       "`rayctl up` makes a cluster that stays",
		"launch":             "`rayctl run -- COMMAND` runs one job",
		"plan":               "`rayctl render` shows",
		"queue":              "`rayctl ls` lists the clusters that wait",
		"job submit -x":      "`rayctl submit -- COMMAND`",
		"job status x":       "`rayctl jobs ID`",
		"job logs x":         "`rayctl logs JOB`",
		"serve run a:b":      "`rayctl serve apply -f serve.yaml` deploys it",
		"serve config":       "`rayctl serve status -o json`",
		"share x":            "a group can read a run in the directory of job.shareDir (`rayctl logs DIR/NAME`)",
		"ui":                 "`rayctl dashboard NAME`",
		"results x":          "`rayctl cp NAME: DIR`",
		"prune -f":           "`rayctl gc`",
		"tune":               "`rayctl run -- python tune.py`",
		"exec ray status":    "Put the command after `--`: rayctl exec -- ray status",
		"jupyter lab":        "`eval \"$(rayctl env NAME)\"`",
		"help attach":        "`rayctl logs -f NAME` follows a run",
		"help statu":         "did you mean `rayctl status`?",
		"jbos":               "did you mean `rayctl jobs`?",
		"help nope":          "`rayctl --help` lists the commands",
		"nope":               "`rayctl --help` lists the commands",
		"cost":               "`rayctl history` lists what ended runs have cost",
		"init ci":            "the CI system is not said: `rayctl init github` writes a GitHub workflow",
		"help nosuch":        "there is no command, key or subject \"nosuch\": `rayctl --help` lists the commands, and the subjects are elastic, ci,",
		"help lifetime.idel": "did you mean `rayctl help lifetime.idle`?",
		"help jobs x":        "there is no command `rayctl jobs x`: `rayctl jobs --help` lists the commands",
		"runn":               "did you mean `rayctl run`?",
	} {
		refused(t, line, want)
	}
}

// TestHelpSubjects: help shows, without any file beside the program, keys of the cluster file and the document of each subject.
func TestHelpSubjects(t *testing.T) {
	for line, want := range map[string]string{
		"help elastic":       "# Elastic",
		"help signals":       "## Ctrl-C\n\n| command |",
		"help exit-codes":    "## Exit codes\n\n`run`",
		"help job":           "job (map)\n",
		"help share":         "job.shareDir",
		"help retries":       "job.restarts (map)",
		"help output":        "job.outputDir (",
		"help secret":        "secrets (",
		"help python":        "# Python",
		"help packages":      "# Packages and data",
		"help each-node":     "# One process on every node",
		"help rl":            "# Reinforcement learning",
		"help resume":        "# Bring your own trainer",
		"help partition":     "slurm.partition (",
		"--help":             "exit-codes, variables",
		"help warning":       "RAYCTL_ENDS_AT",
		"help variables":     "## Variables\n\nBesides",
		"help RAYCTL_NODES":  "## Variables\n\nBesides",
		"help Kubernetes":    "Role",
		"help slurm":         "partition",
		"help sharing":       "job.shareDir",
		"help timeLimit":     "job.restarts.timeLimit (number or unlimited; default: 0)\n  Counts attempts ended by lifetime.max",
		"help job.grace":     "  Flag: --grace\n",
		"help gpus":          "workers[].gpus (",
		"help workers.gpus":  "workers[].gpus (",
		"help lifetime":      "  Keys: queue, max, ",
		"explain env":        "\nenv (map of text)\n",
		"explain lifetime":   "`rayctl help lifetime.queue` explains one\n",
		"explain run":        "rayctl run [-f FILE]",
		"explain job.secret": "",
	} {
		a, out, stderr := apptest.New()
		code := a.Execute(context.Background(), NewRoot, strings.Fields(line))
		if want == "" {
			if code != runstate.CodeUsage || out.Len() > 0 {
				t.Errorf("%s: code %d, stdout %q", line, code, out)
			}
			continue
		}
		if note := "`rayctl help jobs` is about the command jobs\n"; line == "help job" && stderr.String() == note {
			stderr.Reset()
		}
		if code != 0 || stderr.Len() > 0 || !strings.Contains("\n"+out.String(), want) || strings.HasPrefix(out.String(), "<!--") {
			t.Errorf("%s: code %d, stderr %q, stdout %.300q", line, code, stderr, out)
		}
	}
	for word, document := range topics {
		if docs.Read(document) == "" {
			t.Errorf("help %s: there is no %s", word, document)
		}
	}
}

// TestFlagsOfOtherTools: a flag that the command does not have names the right one from the command's help, the way without a flag, or the nearest.
func TestFlagsOfOtherTools(t *testing.T) {
	for line, want := range map[string]string{
		"run --job-name x -- x":                "use --name NAME",
		"submit --name x -- x":                 "use --submission-id ID",
		"logs -F dev":                          "use --follow",
		"stop --all":                           "`rayctl stop NAME JOB...` takes several",
		"scale dev --replicas 3":               "write the sizes without a flag: `rayctl scale [NAME] GROUP=N",
		"wait --timeout 5m dev":                "`timeout 10m rayctl ...` ends it after 10 minutes with code 124",
		"run --wait -- x":                      "it waits unless --detach",
		"run -n 2 -- x":                        "`rayctl run` has no flag -n: use --name NAME (exact NAME of the cluster) or --workers",
		"run -p big -- x":                      "use --profile NAME",
		"run --worker 2 -- x":                  "did you mean --workers",
		"run --nmae x -- x":                    "did you mean --name", //nolint:misspell // the mistake is the test
		"run --nosuchthing -- x":               "`rayctl run --help` lists its flags",
		"submit --gpus 1 -- x":                 "use --entrypoint-num-gpus GPUs",
		"submit --cpus 1 -- x":                 "use --entrypoint-num-cpus CPUs",
		"submit --memory 1Gi -- x":             "use --entrypoint-memory QUANTITY",
		"run --junitxml r.xml -- x":            "use --junit FILE",
		"wait --junit-xml r.xml x":             "use --junit FILE",
		"run --rm -- x":                        "use --end-on-disconnect",
		"run --secret A=1 -- x":                "--secret: a command line is shown to other users of the machine: give its NAME alone",
		"submit --secret-env A -- x":           "`secrets: [NAME]` in the cluster file",
		"down --purge x":                       "`rayctl gc --older-than 0` removes it now",
		"gc --all":                             "use --older-than TIME (remove also your records of what ended before TIME, as in 24h or 1w, or a local date or time such as 2006-01-02 or '2006-01-02 15:04'; 0 is all of them) or --environments",
		"events dev -f":                        "--file needs a value: -w follows, -f is --file FILE",
		"ls -w":                                "`rayctl status -w NAME` shows each change",
		"ls -A":                                "use --others (also list Ray clusters that rayctl did not start, and on Slurm the rayctl clusters of other users) or --all",
		"logs --since 1h":                      "use --tail N",
		"exec --all -- x":                      "--node chooses one",
		"submit --timeout 20s -- x":            "`rayctl submit -- timeout 20s python SCRIPT.py` ends it after 20 s",
		"submit --restarts 1 -- x":             "a submitted job runs once",
		"submit --output-dir d -- x":           "a submitted job has its cluster's output directory: `rayctl up --output-dir` names it",
		"status --junit r.xml x":               "`rayctl wait NAME --junit FILE`",
		"up --autostop 10m":                    "use --idle TIME",
		"up --each-node":                       "`rayctl up` has no flag --each-node: it starts no job: `rayctl run` has it",
		"up --retries 2":                       "`rayctl up` has no flag --retries: it starts no job: `rayctl run` has it",
		"up -e A=1":                            "it starts no job: `--set env.NAME=VALUE` is a variable of everything on the cluster, `rayctl submit --env` one of a job",
		"up --working-dir . --prepare x":       "`rayctl up` has no flags --working-dir, --prepare: for --working-dir it starts no job: give it to `rayctl submit`",
		"show x":                               "`rayctl status NAME` shows one cluster",
		"submit --dry-run -- x":                "`rayctl validate` checks the file",
		"run --dry-run --detach -- x":          "--detach and --dry-run exclude one another",
		"down --dry-run":                       "`rayctl ls` lists the clusters that --all would end",
		"init --ci":                            "has no flag --ci: `rayctl init github` writes",
		"logs --worker w-0":                    "use --node NODE",
		"run rayctl.yaml":                      "\"rayctl.yaml\" is a file, not a command: did you mean `rayctl run -f rayctl.yaml`?",
		"validate a/b.yml":                     "did you mean `rayctl validate -f a/b.yml`?",
		"up rayctl.yaml":                       "\"rayctl.yaml\" is a file, not a cluster's name: did you mean `rayctl up -f rayctl.yaml`?",
		"run --partition gpu -- x":             "--partition: it is for Slurm, and the launcher here is local: add --launcher slurm, or leave it out",
		"run --workers 0-2 -- x":               "--workers: \"0-2\" is not a number of workers: write MIN:MAX, as in --workers 0:2",
		"up --dry-run --recreate":              "--dry-run and --recreate exclude one another: leave out all but one",
		"scale worker one":                     "\"one\" is not a group and its size: write it like worker=4, or worker=1:8",
		"status --workdir x":                   "`rayctl status --help` lists its flags",
		"run script.py --n 6":                  "there is no file script.py here: for one that only the nodes have, write `rayctl run -- python script.py --n 6`",
		"run python a.py --lr 0.1 -q":          "Put the command after `--`: rayctl run -q -- python a.py --lr 0.1",
		"submit dev a.py --n 6":                "there is no file a.py here: for one that only the nodes have, write `rayctl submit dev -- python a.py --n 6`",
		"submit ./a --n 6":                     "Put the command after `--`: rayctl submit -- ./a --n 6",
		"exec dev ls -l -v":                    "Put the command after `--`: rayctl exec dev -v -- ls -l",
		"submit t.py":                          "there is no file t.py here",
		"submit dev a.py -d --n 6":             "write `rayctl submit dev -d -- python a.py --n 6`",
		"run a.py --lr 0.1 --workers 2":        "write `rayctl run --workers 2 -- python a.py --lr 0.1`",
		"run --lr 0.1 --frob=2 --lr 3 -xy":     "`rayctl run` has no flags --lr, --frob, -x: for --lr `rayctl run --help` lists its flags; for --frob `rayctl run --help` lists its flags; for -x ",
		"submit cc -d --name a -- python b.py": "`rayctl submit` has no flag --name: use --submission-id ID",
		"run x -- true":                        "Put the command after `--`: rayctl run -- x true",
		"run a;b 'c --n":                       "Put the command after `--`: rayctl run -- 'a;b' ''\"'\"'c' --n",
	} {
		refused(t, line, want)
	}
	for _, line := range []string{
		"ls --json", "run -e A=1 -d", "submit -d", "submit --detach", "submit --no-wait", "down -y", "cp -r", "logs -n 5", "dashboard -p 1", "history --since 2h",
		"run --timeout 2h --cpus 1 --gpus 1 --memory 1Gi", "up --time-limit 2h --nodes 2 --min-workers 1 --max-workers 4", "up --qos high --partition p", "run --retries 2",
	} {
		a, _, _ := apptest.New()
		c, args, err := NewRoot(a).Find(strings.Fields(line))
		if err == nil {
			err = c.ParseFlags(args)
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// refused expects a usage error of one sentence.
func refused(t *testing.T, line, want string) {
	t.Helper()
	a, out, stderr := apptest.New()
	code := a.Execute(context.Background(), NewRoot, strings.Fields(line))
	if said := stderr.String(); code != runstate.CodeUsage || out.Len() > 0 || strings.Count(said, "\n") != 1 || !strings.Contains(said, want) {
		t.Errorf("%s: code %d, stdout %q, stderr %q; want %q", line, code, out, said, want)
	}
}

// TestKeyFits: what a key means is no wider than the other help on a wide terminal, and fits a narrow one.
func TestKeyFits(t *testing.T) {
	for columns, most := range map[int]int{60: 60, 140: 110} {
		text := apptest.OnTerminal(t, columns, func(a *app.App) {
			if code := a.Execute(context.Background(), NewRoot, []string{"help", "lifetime.max"}); code != 0 {
				t.Errorf("code %d", code)
			}
		})
		apptest.Fits(t, text, most, "RAYCTL_ENDS_AT", "Flag: --max")
	}
}
