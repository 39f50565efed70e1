package clusters

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// verbs are the commands of this package.
var verbs = apptest.Tree(NewRun, NewUp, NewDown, NewLs, NewStatus, NewWait, NewEvents, NewExtend, NewScale, NewGC, NewDoctor, NewHistory)

// file is a cluster file.
func file(text string) map[string]string { return map[string]string{"rayctl.yaml": text} }

// plain has none of the optional abilities.
type plain struct{ launcher.Launcher }

// batch is a batch script that starts Ray by hand.
const batch = "#!/bin/bash\n#SBATCH -N 2\nsrun -N 1 ray start --head\npython a.py\n"

// TestRunLines: command lines of run.
func TestRunLines(t *testing.T) {
	apptest.Run(t, verbs, func() launcher.Launcher { return &apptest.Launcher{Output: "hello\n"} }, []apptest.Line{
		{Args: "run --name a -- true", Out: "hello\n", Err: "Starting run a on this machine (default launcher)\n", Calls: []string{"launch a"}},
		{Args: "run --name a a.py -o json", Files: map[string]string{"a.py": ""}, Out: `"python a.py"`, Err: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a a.py --lr 0.1 data --n=6 -o=1", Files: map[string]string{"a.py": ""}, Code: runstate.CodeUsage, Err: "rayctl run --name a -o=1 -- python a.py --lr 0.1 data --n=6"},
		{Args: "run --name a -o json a.py --lr 0.1 data --n=6", Files: map[string]string{"a.py": ""}, Out: `"python a.py --lr 0.1 data --n=6"`, Err: "hello\n", Calls: []string{"launch a"}},
		{Args: "run a.py --lr 0.1 --workers 2", Files: map[string]string{"a.py": ""}, Code: runstate.CodeUsage, Err: "rayctl run --workers 2 -- python a.py --lr 0.1"},
		{Args: "run --name a -- python main.py trainer.nnodes=8", Files: map[string]string{"rayctl.yaml": "workers: [{name: w, replicas: 4, gpus: 8}]", "main.py": ""}, Code: runstate.CodeSpec, Err: "job.entrypoint has trainer.nnodes 8, and the cluster file has at most 4 nodes with GPUs: make them equal"},
		{Args: "run --name a nosuch.py", Code: runstate.CodeUsage, Err: "there is no file nosuch.py here: for one that only the nodes have, write `rayctl run --name a -- python nosuch.py`\n"},
		{Args: "run --name a --working-dir ../t3 a.py", Files: map[string]string{"../t3/a.py": ""}, Out: "hello\n", Unsaid: "there is no file", Calls: []string{"launch a"}},
		{Args: "run --name a a.py --working-dir=d", Files: map[string]string{"d/a.py": ""}, Out: "hello\n", Unsaid: "there is no file", Calls: []string{"launch a"}},
		{Args: "run --name a a.py --working-dir d --workers 2", Files: map[string]string{"d/a.py": `p.add_argument("--workers")`}, Code: runstate.CodeUsage, Err: "--workers is a flag of rayctl, and may be one of a.py"},
		{Args: "run --name a --working-dir d a.py", Files: map[string]string{"d/b.py": "", "a.py": ""}, Code: runstate.CodeSpec, Err: "there is no file a.py in the working directory "},
		{Args: "run --name a --working-dir nosuch a.py", Files: map[string]string{"a.py": ""}, Code: runstate.CodeSpec, Err: "nosuch does not exist: paths are relative to the cluster file, those of flags to where you are"},
		{Args: "run --name a a.py --workers 2", Files: map[string]string{"a.py": `p.add_argument("--workers")`}, Code: runstate.CodeUsage,
			Err: "--workers is a flag of rayctl, and may be one of a.py: `rayctl run --name a -- python a.py --workers 2` gives it to the script, `rayctl run --name a --workers 2 a.py` to rayctl"},
		{Args: "run --name a a.py -q --workers 2", Files: map[string]string{"a.py": `p.add_argument("--workers")`}, Code: runstate.CodeUsage, Err: "--workers is a flag of rayctl"},
		{Args: "run --name a a.py -o json", Files: map[string]string{"a.py": "print(sys.argv)"}, Code: runstate.CodeUsage, Err: "-o is a flag of rayctl, and may be one of a.py"},
		{Args: "run --name a python a.py --n=6", Files: map[string]string{"a.py": ""}, Out: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a -e API_KEY=x -- true", Out: "hello\n", Err: "--env API_KEY: Ray shows the environment of a job, and records keep it; `secrets: [API_KEY]` in the cluster file", Calls: []string{"launch a"}},
		{Args: "up new -q", Out: "new\n", Unsaid: "new", Calls: []string{"launch new"}},
		{Args: "up new -q -o json", Out: `"name": "new"`, JSON: true, Calls: []string{"launch new"}},
		{Args: "up new -q -d", Out: "new\n", Calls: []string{"launch new"}},
		{Args: "run --name a -q -o name -- true", Out: "a\n", Err: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a -o json -- true", Out: `"cause": "succeeded"`, JSON: true, Err: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a -d -o json -- true", Out: `"name": "a"`, JSON: true, Err: "Detached; a keeps running", Calls: []string{"launch a"}},
		{Args: "run --name a -- true", Files: file("job: {shareDir: /srv/team}"), Out: "hello\n", Err: "Its group can follow it once it has begun to start: `rayctl logs -f /srv/team/a`\n", Calls: []string{"launch a"}},
		{Args: "run --name a -d -- true", Out: "a\n", Err: "next: `rayctl logs -f a` follows it; `rayctl down a` ends it; `rayctl cp a: DIR` copies its results\n", Calls: []string{"launch a"}},
		{Args: "run --name a", Files: file("job: {entrypoint: 'true'}"), Out: "hello\n", Err: "using ", Calls: []string{"launch a"}},
		{Args: "run --name a --receipt r.json -- true", Made: "r.json", Out: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a --junit r.xml -- true", Made: "r.xml", Out: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a --recreate -- true", Out: "hello\n", Calls: []string{"terminate a", "launch a"}},
		{Args: "run --name a --end-on-disconnect -d -- true", Out: "a\n", Calls: []string{"launch a"}},
		{Before: "run --name a -- true", Args: "run --name a -- true", Files: file("job: {outputDir: out}"), Out: "hello\n", Err: "or --recreate to replace this run; files in job.outputDir stay\n", Calls: []string{"launch a"}},
		{Before: "run --name a -- true", Args: "run --name a -- true", Out: "hello\n", Err: "Run a ended at 2026-01-02T03:04:35Z, and this is its record: give another --name for a new run, or --recreate to replace this run with its output (one with job.outputDir would go on with that)\n", Calls: []string{"launch a"}},
		{Before: "run --name a -- true", Args: "run --name a -o json -- true", Out: `"cause": "succeeded"`, JSON: true, Err: "hello\n", Calls: []string{"launch a"}},
		{Before: "run --name a -- true", Args: "run --name a -- false", Code: runstate.CodeSpec, Err: "the ended run a was a different one, with another command: true: choose another --name, or replace it with --recreate", Calls: []string{"launch a"}},
		{Args: "run --name a --dry-run -- true", Out: "a would start on this machine (default launcher): true\n"},
		{Args: "run --name a --dry-run --working-dir a.zip -- true", Files: map[string]string{"a.zip": "none"}, Code: runstate.CodeSpec, Err: "a.zip is not a zip file that Ray can unpack"},
		{Args: "run --name a -- python typo.py", Code: runstate.CodeSpec, Unsaid: "Starting run", Err: "in which the job begins: write its path relative to that directory\n"},
		{Args: "run --dry-run -- python -u src/trian.py", Files: map[string]string{"src/train.py": "", "train.py": ""}, Code: runstate.CodeSpec, Err: "in which the job begins: did you mean src/train.py?\n"},
		{Args: "run --name a --prepare make -- python typo.py", Out: "hello\n", Err: "there is no file typo.py here in ", Calls: []string{"launch a"}},
		{Args: "run --name a -- python typo.py", Files: file("setup: make"), Out: "hello\n", Err: "there is no file typo.py here in ", Calls: []string{"launch a"}},
		{Args: "run --name a --dry-run -- pyhton a.py --lr '1 x'", Files: map[string]string{"a.py": ""}, Code: runstate.CodeSpec, Unsaid: "Starting run", Err: "there is no program \"pyhton\" in PATH on this machine: did you mean `-- python a.py --lr "},
		{Args: "run -- nosuch-program-of-anybody 3", Code: runstate.CodeSpec, Err: "there is no program \"nosuch-program-of-anybody\" in PATH on this machine: give its path, or install it\n"},
		{Args: "run --name a -- cd src", Out: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a -- sh -c pyhton", Out: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a -- SEED=1 pyhton a.py", Out: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a -- bin/pyhton a.py", Out: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a -- serve run m:app", Out: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a --env PATH=/opt/bin:$PATH -- pyhton a.py", Out: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a -- pyhton a.py", Files: file("workers: [{name: w, env: {PATH: /opt/bin}}]"), Out: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a -- pyhton a.py", Files: file("setup: make"), Out: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a --pip pytest -- pytset", Out: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a -- pyhton a.py", Files: file("ray: {python: /opt/env}"), Out: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --name a -- python -u a.py", Files: map[string]string{"a.py": ""}, Out: "hello\n", Unsaid: "there is no file", Calls: []string{"launch a"}},
		{Args: "run --name a -- python -c x.py", Out: "hello\n", Unsaid: "there is no file", Calls: []string{"launch a"}},
		{Args: "run --name a --working-dir . -- python typo.py", Code: runstate.CodeSpec, Err: "there is no file typo.py in the working directory "},
		{Args: "run --name a --working-dir . --prepare make -- python typo.py", Out: "hello\n", Err: "there is no file typo.py here in ", Calls: []string{"launch a"}},
		{Args: "run --name a --working-dir d --dry-run -- true", Files: map[string]string{"d/a\\b": "", "d/c": "", "d/\xff/x": ""}, Code: runstate.CodeStartFailed,
			Err: `/d, as they have a backslash or are not in UTF-8: "a\\b", "\xff": rename them, or exclude them`},
		{Args: "run --name a --working-dir d --excludes * --dry-run -- true", Files: map[string]string{"d/a\\b": ""}, Out: "a would start"},
		{Args: "run --name a --dry-run -o json -- true", Out: `"action": "launch"`, JSON: true},
		{Args: "run --name a --dry-run --working-dir d -- true", Files: map[string]string{"d/.gitignore": "*.ckpt\n/data/\n", "d/a.py": "12", "d/x.ckpt": "", "d/y.ckpt": "", "d/data/z": "12345", "d/.rayignore": "!w.ckpt"},
			Out: "a would start", Err: "!w.ckpt of .rayignore takes nothing back: there is no such file that is left out, or a directory above it is left out\nwould send 3 files, 23 B; left out by .gitignore: data/ (5 B), *.ckpt (2); `--excludes '!data'` sends data/\n"},
		{Args: "run --name a --dry-run -o json --working-dir d -- true", Files: map[string]string{"d/.gitignore": "x\n", "d/x": ""}, Out: `"leftOut"`, JSON: true},
		{Before: "run --name a -- true", Args: "run --name a --dry-run -- true", Out: "a has ended: run would show its record\n", Calls: []string{"launch a"}},
		{Before: "run --name a -- true", Args: "run --name a --dry-run -- false", Code: runstate.CodeSpec, Err: "a is another run, and run would refuse the name: choose another --name, or replace it with --recreate", Calls: []string{"launch a"}},
		{Before: "run --name a -- true", Args: "history", Out: "a      local      2026-01-02T03:04:35Z   30 s   30             0      succeeded   true\n", Calls: []string{"launch a"}},
		{Before: "run --name a -- true", Args: "run --name b -o json -- true", Out: `"state": "SUCCEEDED"`, JSON: true, Calls: []string{"launch a", "launch b"}},
		{Before: "run --name a -- true", Args: "gc --older-than 0 --history", Out: "removed record a: ended 2026-01-02T03:04:35Z\nremoved receipt a: ended 2026-01-02T03:04:35Z\n", Calls: []string{"launch a", "reconcile", "forget a"}},
		{Args: "up a", Files: map[string]string{"rayctl.yaml": "name: a", "serve.yaml": ""}, Err: "next: `rayctl serve apply -f serve.yaml a`; ", Unsaid: "Ray Serve", Calls: []string{"launch a"}},
		{Args: "up a", Files: map[string]string{"rayctl.yaml": "name: a\nlocal: {packages: ['ray[serve,train]']}", "serve.yaml": "applications: []"}, Err: "cluster a is Ready", Unsaid: "Ray Serve", Calls: []string{"launch a"}},
		{Args: "up a --python /v", Files: map[string]string{"serve.yaml": "applications: []"}, Err: "cluster a is Ready", Unsaid: "Ray Serve", Calls: []string{"launch a"}},
		{Before: "run --name a -- true", Args: "up a", Code: runstate.CodeSpec, Err: "cluster a has ended", Calls: []string{"launch a"}},
		{Args: "run", Code: runstate.CodeSpec, Err: "there is no command to run: give it after --, as in `rayctl run -- python train.py`, or set job.entrypoint"},
		{Args: "run x -- true", Code: runstate.CodeUsage, Err: "Put the command after `--`: rayctl run -- x true\n"},
		{Args: "run --name a --workers 2 --each-node=2 -- true", Code: runstate.CodeUsage, Unsaid: "Starting run", Err: "--each-node=2: a node of group worker has 1 CPU for 2 processes: give --cpus-per-worker 2, or a smaller number\n"},
		{Args: "run --name a --workers 2 --each-node 2 --cpus-per-worker 2 -- true", Out: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --each-node 2 -- true", Code: runstate.CodeUsage, Unsaid: "Starting run", Err: "--each-node=2: a node of group head has 1 CPU for 2 processes: give --set head.cpus=2, or a smaller number\n"},
		{Args: "run --each-node 2 -- true", Files: file("workers: [{name: w, replicas: 2}, {name: v, cpus: 8}]"), Code: runstate.CodeUsage, Err: "a node of group w has 1 CPU for 2 processes: give --cpus-per-worker w=2, or a smaller number\n"},
		{Args: "run --dry-run -- true", Files: file("workers: [{name: w, replicas: 2}]\njob: {launch: {perNode: 2}}"), Code: runstate.CodeSpec, Err: "job.launch.perNode: a node of group w has 1 CPU for 2 processes: set workers.w.cpus: 2, or lower perNode\n"},
		{Args: "run --each-node=3 -- true", Files: file("workers: [{name: w, replicas: 2, gpus: 8, cpus: 8}]"), Code: runstate.CodeUsage, Err: "--each-node=3: the 8 GPUs of a node of group w cannot be divided equally among 3 processes: choose a number that divides them\n"},
		{Args: "run --workers 2 --each-node gpu -- true", Code: runstate.CodeUsage, Err: "--each-node: job.launch.perNode: the cluster has no required node that runs work and has a GPU: give the workers GPUs (--workers N --gpus-per-worker N, or gpus of a group in the file), or the number of processes, as in --each-node=2\n"},
		{Args: "run --rank 0 -- true", Code: runstate.CodeUsage, Unsaid: "Starting run", Err: "--rank and --rank-files need a job with --each-node or job.launch"},
		{Args: "run --each-node --rank -2 -- true", Code: runstate.CodeUsage, Unsaid: "Starting run", Err: "--rank: there is no rank -2: ranks are numbered from 0\n"},
		{Args: "run train.sbatch", Files: map[string]string{"train.sbatch": batch}, Code: runstate.CodeUsage, Err: "train.sbatch is a batch script that starts Ray itself, not a command: `rayctl init --from train.sbatch` makes the rayctl.yaml of it, which `rayctl run` runs\n"},
		{Args: "run it's.sh", Files: map[string]string{"it's.sh": "#!/bin/bash\nray start --head\n"}, Code: runstate.CodeUsage, Err: "`rayctl init --from 'it'\"'\"'s.sh'` makes"},
		{Args: "run plain.sbatch 3", Files: map[string]string{"plain.sbatch": "#SBATCH -N 2\nsrun hostname\n"}, Code: runstate.CodeUsage, Err: "Put the command after `--`: rayctl run -- bash plain.sbatch 3\n"},
		{Args: "run fit.sh", Files: map[string]string{"fit.sh": "#!/usr/bin/env bash\necho\n"}, Code: runstate.CodeUsage, Err: "Put the command after `--`: rayctl run -- bash fit.sh\n"},
		{Args: "run --name a -- bash train.sbatch", Files: map[string]string{"train.sbatch": batch}, Out: "hello\n", Calls: []string{"launch a"},
			Err: "train.sbatch starts Ray itself, and here it runs once, on a cluster that has Ray already; nothing reads its sizes: `rayctl init --from train.sbatch` makes the rayctl.yaml of it, which `rayctl run` runs\nStarting run a"},
		{Args: "run --name a -- sh -e ./train.sbatch 3", Files: map[string]string{"train.sbatch": batch}, Out: "hello\n", Err: "`rayctl init --from ./train.sbatch`", Calls: []string{"launch a"}},
		{Args: "run --name a --working-dir d -- bash train.sbatch", Files: map[string]string{"d/train.sbatch": batch}, Out: "hello\n", Err: "train.sbatch starts Ray itself", Calls: []string{"launch a"}},
		{Args: "run --name a", Files: map[string]string{"rayctl.yaml": "job: {entrypoint: bash train.sbatch}", "train.sbatch": batch}, Out: "hello\n", Err: "train.sbatch starts Ray itself", Calls: []string{"launch a"}},
		{Args: "run --name a -- bash plain.sbatch", Files: map[string]string{"plain.sbatch": "#!/bin/bash\n#SBATCH -N 2\nsrun hostname\n"}, Out: "hello\n", Calls: []string{"launch a"},
			Err: "nothing reads the #SBATCH lines of plain.sbatch: it runs once, on the head: --workers, --cpus-per-worker and --gpus-per-worker or a rayctl.yaml size the cluster (`rayctl help coming-from`)\n"},
		{Args: "run --name a -- bash fit.sh", Files: map[string]string{"fit.sh": "# ray start\npython a.py\n"}, Out: "hello\n", Unsaid: "fit.sh", Calls: []string{"launch a"}},
		{Args: "run --name a -- bash -c train.sbatch", Files: map[string]string{"train.sbatch": batch}, Out: "hello\n", Unsaid: "starts Ray", Calls: []string{"launch a"}},
		{Args: "run -- fit.bash", Files: map[string]string{"fit.bash": "#!/bin/bash\n"}, Code: runstate.CodeUsage, Err: "fit.bash is a script, not a program: write `-- bash fit.bash`"},
		{Args: "run -- fit.py 3", Files: map[string]string{"fit.py": ""}, Code: runstate.CodeUsage, Err: "fit.py is a script, not a program: write `-- python fit.py 3`"},
		{Args: "run -- ./fit.py", Files: map[string]string{"fit.py": ""}, Code: runstate.CodeUsage, Err: "./fit.py is a script, not a program: write `-- python ./fit.py`"},
		{Args: "run --working-dir d -- fit.sh", Files: map[string]string{"d/fit.sh": ""}, Code: runstate.CodeUsage, Err: "write `-- sh fit.sh`"},
		{Args: "run -- ./fit", Files: map[string]string{"fit": ""}, Code: runstate.CodeUsage, Err: "./fit is not executable: `chmod +x ./fit` makes it one"},
		{Args: "run -- elsewhere.py", Code: runstate.CodeSpec, Err: "there is no program \"elsewhere.py\" in PATH on this machine"},
		{Args: "run --nosuch -- true", Code: runstate.CodeUsage, Err: "`rayctl run` has no flag --nosuch: `rayctl run --help` lists its flags"},
		{Args: "__complete run --on-interrupt ''", Out: "stop\ndetach\n:4\n"},
		{Args: "run --on-interrupt maybe -- true", Code: runstate.CodeUsage, Err: `--on-interrupt: "maybe" is unknown: it takes stop or detach`},
		{Args: "run --recreate -- true", Code: runstate.CodeUsage, Err: "--recreate has nothing to replace: give --name"},
		{Args: "run --receipt no/r.json -- true", Code: runstate.CodeConfig, Err: "--receipt: stat no: no such file or directory: make its directory first"},
		{Args: "run --junit no/r.xml -- true", Code: runstate.CodeConfig, Err: "--junit: stat no: no such file or directory: make its directory first"},
		{Args: "run -d --junit r.xml -- true", Code: runstate.CodeUsage, Err: "--junit: with --detach there is no end to write about: `rayctl wait --junit FILE` waits for the end of a detached run and writes it"},
		{Args: "run --name a --end-on-disconnect 10s -- true", Out: "hello\n", Calls: []string{"launch a"}},
		{Args: "run --end-on-disconnect 1s -- true", Code: runstate.CodeUsage, Err: "--end-on-disconnect: 1s is too short: give 5s or more"},
		{Args: "run -o xml -- true", Code: runstate.CodeUsage, Err: `there is no output format "xml" for this command; it has json, yaml, name`},
		{Args: "run --end-on-disconnect=1s -- true", Code: runstate.CodeUsage, Err: "--end-on-disconnect: 1s is too short: give 5s or more"},
		{Args: "run --name '' -- true", Code: runstate.CodeUsage, Err: "--name is empty"},
		{Args: "run --name Not_A_Name -- true", Code: runstate.CodeUsage, Err: `--name: name: "Not_A_Name" is not a DNS label`},
		{Args: "run --launcher kuberay -- true", Code: runstate.CodeUsage, Err: "this rayctl has no kuberay launcher: choose another with --launcher"},
		{Args: "run --launcher k8s -- true", Code: runstate.CodeUsage, Err: "this rayctl has no kuberay launcher"},
		{Args: "run --name a --workers 0:2 --timeout 5m --restarts 3 --share /srv -o json -- true", Out: `"succeeded"`, Err: "`rayctl logs -f /srv/a`", Calls: []string{"launch a"}},
		{Args: "run --launcher nosuch -- true", Code: runstate.CodeUsage, Err: `"nosuch" is not possible here: use slurm, kuberay, local`},
		{Args: "run -f nosuch.yaml -- true", Code: runstate.CodeSpec, Err: "nosuch.yaml: the cluster file cannot be read: no such file or directory: give another one with -f"},
		{Args: "run", Files: file("nosuch: 1\njob: {entrypoint: 'true'}"), Code: runstate.CodeSpec, Err: `rayctl.yaml:1: unknown key "nosuch"`},
		{Args: "run --workers -1 -- true", Code: runstate.CodeUsage, Err: "--workers: workers.worker.replicas: -1 is negative"},
		{Args: "run --set secrets=[{name: -- true", Code: runstate.CodeUsage, Err: `--set: secrets: "[{name:" is not valid here`},
		{Args: "run -- true", Files: file("secrets: [{name: NOSUCH}]"), Code: runstate.CodeConfig, Err: "secret NOSUCH is not set in your environment: export it, or give the secret a file"},
		{Args: "up", Files: file("secrets: [{name: NOSUCH, file: none}]"), Code: runstate.CodeConfig, Err: "secret NOSUCH cannot be read"},
	})
	apptest.Run(t, verbs, func() launcher.Launcher { return &apptest.Launcher{Output: "no\n", Code: 3} }, []apptest.Line{
		{Args: "run --name a -- false", Code: 3, Out: "no\n", Err: "a failed: the driver failed", Calls: []string{"launch a"}},
		{Args: "run --name a -q -- false", Code: 3, Out: "no\n", Calls: []string{"launch a"}},
	})
	apptest.Run(t, verbs, func() launcher.Launcher { return (&apptest.Launcher{Output: "saved\n"}).With("dev", "old") }, []apptest.Line{
		{Args: "run --name dev -- true", Code: runstate.CodeSpec, Err: "cluster dev has another spec", Unsaid: "Starting"},
		{Args: "run --name old -- true", Code: runstate.CodeSpec, Unsaid: "Starting", Err: "the ended run old was a different one, a cluster without a command of its own: choose another --name"},
		{Args: "run --name old --recreate -- true", Out: "saved\n", Calls: []string{"terminate old", "forget old", "launch old"}},
	})
	refusal := launcher.Fail(runstate.CodePermission, nil, "ask for it", "the partition is not for you")
	apptest.Run(t, verbs, func() launcher.Launcher { return &apptest.Launcher{Refusal: refusal} }, []apptest.Line{
		{Args: "run -- true", Code: runstate.CodePermission, Err: "rayctl: the partition is not for you: ask for it\n"},
		{Args: "run --name a --recreate -- true", Code: runstate.CodePermission, Err: "the partition is not for you"},
		{Args: "up dev", Code: runstate.CodePermission, Err: "the partition is not for you"},
	})
	apptest.Run(t, verbs, func() launcher.Launcher { return plain{new(apptest.Launcher).With("old")} }, []apptest.Line{
		{Args: "gc", Err: "there is nothing to remove"},
	})
}

// TestMissingModule: a driver that failed for want of a module is followed by the flag that gives it one; stdout has the driver's bytes alone.
func TestMissingModule(t *testing.T) {
	says := func(name string, code int) func() launcher.Launcher {
		return func() launcher.Launcher {
			return &apptest.Launcher{Output: "Traceback\nModuleNotFoundError: No module named '" + name + "'\n", Code: code}
		}
	}
	for name, want := range map[string]string{
		"numpy": "`--pip numpy` installs it once, for all runs that use the same flag\n", "sklearn.svm": "no module sklearn: `--pip scikit-learn`", "cv2": "`--pip opencv-python-headless`",
		"yaml": "`--pip PyYAML`", "PIL": "`--pip pillow`",
	} {
		apptest.Run(t, verbs, says(name, 1), []apptest.Line{
			{Args: "run --name a -- false", Code: 1, Out: "named '" + name + "'\n", Err: want, Calls: []string{"launch a"}},
			{Args: "run --name a -o json -- false", Code: 1, Out: `"driver-failed"`, JSON: true, Err: want, Calls: []string{"launch a"}},
			{Args: "run --name a -- true", Terminal: true, Code: 1, Out: "named '", Err: want, Calls: []string{"launch a"}},
		})
	}
	apptest.Run(t, verbs, says("numpy", 1), []apptest.Line{
		{Args: "run --name a -- true", Files: map[string]string{"requirements.txt": "numpy"}, Code: 1, Out: "numpy", Err: "`-r requirements.txt` installs", Calls: []string{"launch a"}},
		{Args: "run --name a -- true", Files: map[string]string{"numpy.py": ""}, Code: 1, Out: "numpy", Err: "`--working-dir .` sends this directory", Calls: []string{"launch a"}},
	})
	for _, silent := range []struct {
		name string
		code int
	}{{"numpy", 0}, {"ray", 1}, {"x`y`", 1}, {"$(true)", 1}} {
		a, _, stderr := apptest.New()
		a.Getenv = func(string) string { return t.TempDir() }
		a.Launchers["local"] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) {
			return says(silent.name, silent.code)(), nil
		}
		if code := a.Execute(t.Context(), verbs, []string{"run", "--name", "a", "--", "true"}); code != silent.code || strings.Contains(stderr.String(), "on every node") {
			t.Errorf("%v: code %d, %s", silent, code, stderr)
		}
	}
}

// TestUpLines: command lines of up and down.
func TestUpLines(t *testing.T) {
	with := func() launcher.Launcher { return new(apptest.Launcher).With("dev", "old", "queued") }
	apptest.Run(t, verbs, with, []apptest.Line{
		{Args: "up new", Files: map[string]string{"serve.yaml": "applications: []"}, Err: "The environment has Ray Serve, because there is serve.yaml\n", Calls: []string{"launch new"}},
		{Args: "up new -f d/rayctl.yaml", Files: map[string]string{"d/rayctl.yaml": "name: new\nlocal: {packages: [numpy]}", "d/serve.yaml": "http_options: {}\napplications: []"}, Err: "The environment has Ray Serve, because there is d/serve.yaml\n", Calls: []string{"launch new"}},
		{Args: "up new", Err: "cluster new is Ready: 1 of 1 nodes, Ray 2.60.0", Calls: []string{"launch new"}},
		{Args: "up new -q -o name", Out: "new\n", Calls: []string{"launch new"}},
		{Args: "up new -o json", Out: `"phase": "Ready"`, Calls: []string{"launch new"}},
		{Args: "up new -d -o yaml", Out: "phase: Ready", Calls: []string{"launch new"}},
		{Args: "up", Files: file("name: filed"), Err: "cluster filed is Ready", Calls: []string{"launch filed"}},
		{Before: "up new", Args: "up new", Err: "cluster new is Ready", Calls: []string{"launch new"}},
		{Before: "up new", Args: "up new --workers 3", Code: runstate.CodeSpec, Err: "cluster new has another spec", Calls: []string{"launch new"}},
		{Before: "down dev", Args: "down dev", Err: "Cluster dev had ended at 2026-01-02T03:04:35Z; its record is kept\n", Calls: []string{"terminate dev", "terminate dev"}},
		{Args: "up dev", Err: "it stays as it is"},
		{Args: "up dev", Files: map[string]string{"serve.yaml": "applications: []"}, Err: "it stays as it is", Unsaid: "Ray Serve"},
		{Args: "up dev --workers 2", Code: runstate.CodeSpec, Err: "cluster dev has another spec"},
		{Args: "up dev --recreate", Err: "cluster dev is Ready", Calls: []string{"terminate dev", "forget dev", "launch dev"}},
		{Args: "up old", Code: runstate.CodeSpec, Err: "cluster old has ended"},
		{Args: "up a b", Code: runstate.CodeUsage, Err: "`rayctl up` takes one name; remove \"b\""},
		{Args: "up ''", Code: runstate.CodeUsage, Err: "argument 1 of `rayctl up` is empty"},
		{Args: "up -o wide", Code: runstate.CodeUsage, Err: `there is no output format "wide"`},
		{Args: "up --end-on-disconnect=soon", Code: runstate.CodeUsage, Err: "--end-on-disconnect: "},
		{Args: "up Not_A_Name", Code: runstate.CodeUsage, Err: "Not_A_Name"},
		{Args: "down dev", Err: "Cluster dev has ended", Calls: []string{"terminate dev"}},
		{Args: "delete dev -y", Err: "Cluster dev has ended", Calls: []string{"terminate dev"}},
		{Args: "down dev --now", Err: "Cluster dev has ended", Calls: []string{"terminate dev now"}},
		{Args: "down rayctl.yaml", Code: runstate.CodeUsage, Err: "\"rayctl.yaml\" is a file, not a cluster's name: `-f rayctl.yaml` chooses the cluster of that file"},
		{Args: "down nosuch", Code: runstate.CodeSpec, Err: `no cluster named "nosuch"`, Unsaid: "ending", Calls: []string{"terminate nosuch"}},
		{Args: "down -l team=queued", Err: "Cluster queued has ended", Calls: []string{"terminate queued"}},
		{Args: "down -l team=nosuch", Err: "there is no such cluster"},
		{Args: "down", Code: runstate.CodeUsage, Err: "More than one cluster matches: dev, queued. Choose one by its NAME"},
		{Args: "down", Files: file("name: dev"), Err: "Cluster dev has ended", Calls: []string{"terminate dev"}},
		{Args: "down --launcher slurm", Err: "there is no cluster"},
		{Args: "down dev --all", Code: runstate.CodeUsage, Err: "names, --all and -l cannot be combined: give only one of them"},
		{Args: "down -l team", Code: runstate.CodeUsage, Err: `-l: "team" is not a pair: write it KEY=VALUE`},
		{Args: "down Not_A_Name", Code: runstate.CodeUsage, Err: `"Not_A_Name" cannot be a cluster's name`},
		{Args: "down ''", Code: runstate.CodeUsage, Err: "argument 1 of `rayctl down` is empty"},
	})
	apptest.Run(t, verbs, func() launcher.Launcher { return new(apptest.Launcher).With("dev") }, []apptest.Line{
		{Args: "down", Err: "local cluster dev (the only one)", Calls: []string{"terminate dev"}},
		{Args: "down --all", Err: "Cluster dev has ended", Calls: []string{"terminate dev"}},
	})
	// What has ended is left alone, except for what a dead keeper left.
	apptest.Run(t, verbs, func() launcher.Launcher { return new(apptest.Launcher).With("old", "killed") }, []apptest.Line{
		{Args: "down --all", Err: "Cluster killed has ended", Calls: []string{"terminate killed"}},
		{Args: "down -l team=killed", Err: "Cluster killed has ended", Calls: []string{"terminate killed"}},
		{Args: "down -l team=old", Err: "there is no such cluster"},
	})
	// A launch that its client has not committed is none that waits.
	const remove = "its client has not committed the launch, so it runs nothing: if that client has died, `rayctl down uncommitted` removes it"
	apptest.Run(t, verbs, func() launcher.Launcher { return new(apptest.Launcher).With("uncommitted") }, []apptest.Line{
		{Args: "ls", Out: "uncommitted   local      Uncommitted   0/1     -     1 h 0 min   " + remove + "\n"},
		{Args: "ls -o json", Out: `"uncommitted": true`, JSON: true},
		{Args: "status uncommitted", Out: "launch      " + remove + "\n"},
		{Args: "status uncommitted -o json", Out: `"uncommitted": true`, JSON: true},
		{Args: "down", Err: "Cluster uncommitted has ended", Calls: []string{"terminate uncommitted"}},
	})
	// In a namespace that several users share, nobody ends a cluster of another one by accident.
	apptest.Run(t, verbs, func() launcher.Launcher { return new(apptest.Launcher).With("theirs", "dev") }, []apptest.Line{
		{Args: "down", Err: "local cluster dev (the only one)", Calls: []string{"terminate dev"}},
		{Args: "down --all", Err: "Cluster dev has ended", Calls: []string{"terminate dev"}},
		{Args: "down --all --owner bob", Err: "Cluster theirs has ended", Calls: []string{"terminate theirs"}},
		{Args: "down -l team=theirs", Err: "there is no such cluster"},
		{Args: "down -l team=theirs --owner all", Err: "Cluster theirs has ended", Calls: []string{"terminate theirs"}},
		{Args: "down theirs", Err: "Cluster theirs has ended", Calls: []string{"terminate theirs"}},
		{Args: "down --owner bob", Code: runstate.CodeUsage, Err: "--owner needs --all or -l, of whose clusters it chooses those of one owner: add --all or -l"},
		{Args: "ls", Out: "bob@laptop   -\n"},
		{Args: "ls --owner me -o name", Out: "dev\n"},
		{Args: "ls --owner bob@laptop -o name", Out: "theirs\n"},
	})
	apptest.Run(t, verbs, func() launcher.Launcher { return new(apptest.Launcher).With("theirs") }, []apptest.Line{
		{Args: "down", Err: "there is no cluster of yours"},
		{Args: "status", Code: runstate.CodeSpec, Err: "there is no cluster of yours, but of other users: theirs: Choose one by its NAME"},
	})
	apptest.Run(t, verbs, func() launcher.Launcher { return &apptest.Launcher{Waits: true} }, []apptest.Line{
		{Args: "up new -d", Err: "cluster new is Queued: 0 of 1 nodes", Calls: []string{"launch new"}},
		{Before: "run --name a -d -- true", Args: "down a", Err: "cluster a runs a job, which is stopped\nending a\n", Calls: []string{"launch a", "terminate a"}},
	})
}

// TestOtherFile: a command with a NAME finds what this machine launched, whatever cluster the file in this directory is about.
func TestOtherFile(t *testing.T) {
	launched := func() launcher.Launcher { return new(apptest.Launcher) }
	const elsewhere, broken = "name: other\nlauncher: slurm\n", "name: other\nnosuch: 1\n"
	calls := []string{"launch a"}
	apptest.Run(t, verbs, launched, []apptest.Line{
		{Before: "run --name a -- true", Args: "status a", Later: file(broken), Out: "exit       succeeded", Err: "local cluster a\n", Calls: calls},
		{Before: "run --name a -- true", Args: "wait a", Later: file(elsewhere), Err: "a succeeded", Calls: calls},
		{Before: "run --name a -- true", Args: "status a -f rayctl.yaml", Later: file(broken), Code: runstate.CodeSpec, Err: `unknown key "nosuch"`, Calls: calls},
		{Before: "run --name a -- true", Args: "status a --launcher slurm", Later: file(elsewhere), Code: runstate.CodeSpec, Err: `no cluster named "a"`, Calls: calls},
		{Before: "run --name a -- true", Args: "status a", Later: file("name: a\n"), Out: "exit       succeeded", Err: "using rayctl.yaml\n", Calls: calls},
		{Before: "run --name a -- true", Args: "status b", Later: file(broken), Code: runstate.CodeSpec, Err: `unknown key "nosuch"`, Calls: calls},
	})
}

// TestListLines: command lines of ls, status and history.
func TestListLines(t *testing.T) {
	with := func() launcher.Launcher { return new(apptest.Launcher).With("dev", "old", "queued") }
	apptest.Run(t, verbs, with, []apptest.Line{
		{Args: "ls", Out: "dev      local      Ready    1/1     -     1 h"},
		{Args: "ls", Out: "queued   local      Queued   0/1"},
		{Args: "ls -a -o name", Out: "queued\nold\ndev\n"},
		{Args: "status old", Out: "exit       succeeded (exit code 0)"},
		{Args: "ls -o wide", Out: "team=queued"},
		{Args: "ls -l team=dev -o json", Out: `"name": "dev"`},
		{Args: "list -l team=nosuch", Err: "there is no cluster"},
		{Args: "ls -l team=nosuch -o json", Out: "[]\n"},
		{Args: "ls --launcher slurm -o yaml", Out: "[]\n"},
		{Args: "ls x", Code: runstate.CodeUsage, Err: "`rayctl ls` takes no arguments"},
		{Args: "ls -l x", Code: runstate.CodeUsage, Err: `-l: "x" is not a pair`},
		{Args: "ls -o xml", Code: runstate.CodeUsage, Err: "it has json, yaml, name, wide"},
		{Args: "ls --launcher Kubernetes", Code: runstate.CodeUsage, Err: "this rayctl has no kuberay launcher"},
		{Args: "ls --launcher nosuch", Code: runstate.CodeUsage, Err: "this rayctl has no nosuch launcher"},
		{Args: "status dev", Out: "phase       Ready"},
		{Args: "status dev", Out: "dashboard   `rayctl dashboard dev`\n"},
		{Args: "status queued", Out: "Queued: waiting for resources: ask for less"},
		{Args: "status old", Out: "exit       succeeded"},
		{Args: "status old", Out: "node-seconds"},
		{Args: "status old", Out: "\ntime "},
		{Args: "status dev -v", Out: "ray start", Err: "the dashboard is not reachable"},
		{Args: "status dev -o name", Out: "dev\n"},
		{Args: "status dev -o json", Out: `"rayVersion": "2.60.0"`},
		{Args: "status old -w", Out: "Ended"},
		{Args: "status dev -w", Interrupt: true, Code: runstate.CodeInterrupted, Out: "Ready 1/1 nodes"},
		{Args: "status dev -w -o json", Interrupt: true, Code: runstate.CodeInterrupted, Out: `"name":"dev"`},
		{Args: "status nosuch", Code: runstate.CodeSpec, Err: "no cluster named \"nosuch\": `rayctl ls` shows yours"},
		{Args: "status", Code: runstate.CodeUsage, Err: "More than one cluster matches: dev, queued. Choose one by its NAME"},
		{Args: "status a b", Code: runstate.CodeUsage, Err: "`rayctl status` takes one name"},
		{Args: "status dev -o wide", Code: runstate.CodeUsage, Err: `no output format "wide"`},
		{Args: "wait old", Err: "old succeeded"},
		{Args: "wait old -o json", Out: `"cause": "succeeded"`, JSON: true, Err: "old succeeded"},
		{Args: "wait old --junit r.xml --receipt r.json", Made: "r.xml", Err: "old succeeded"},
		{Args: "wait old --junit no/r.xml", Code: runstate.CodeConfig, Err: "--junit: stat no: no such file or directory: make its directory first"},
		{Args: "wait --ready dev --junit r.xml", Code: runstate.CodeUsage, Err: "--junit reports the end of a run, and --ready does not wait for the end: leave one of them out"},
		{Args: "wait --ready dev -o json", Out: `"name": "dev"`, JSON: true, Err: "cluster dev is ready"},
		{Args: "wait --ready dev", Err: "cluster dev is ready"},
		{Args: "wait --ready old", Code: runstate.CodeStartFailed, Err: "cluster old ended before it was ready"},
		{Args: "wait dev", InterruptAt: "waiting for the end", Code: runstate.CodeInterrupted, Err: "waiting for the end of cluster dev, which does not end with its jobs: `rayctl wait dev JOB` waits for one, `rayctl jobs dev` lists them\n"},
		{Args: "wait dev a b", Code: runstate.CodeUsage, Err: "`rayctl wait` takes one cluster and one job"},
		{Args: "wait queued a", Code: runstate.CodeUnreachable, Err: "cluster queued is not ready yet"},
		{Args: "wait raysubmit_x", Code: runstate.CodeUsage, Err: "More than one cluster matches: dev, queued. Choose one by its NAME"},
		{Args: "wait --ready dev a", Code: runstate.CodeUsage, Err: "--ready waits for a cluster, and you name job a: leave one of them out"},
		{Args: "wait dev a --junit r.xml", Code: runstate.CodeUsage, Err: "--junit reports the end of a run, and you name job a: leave one of them out"},
		{Args: "status raysubmit_x", Code: runstate.CodeUsage, Err: "raysubmit_x is a job, not a cluster: `rayctl jobs -c CLUSTER JOB` shows it"},
		{Args: "status No_Name", Code: runstate.CodeUsage, Err: `"No_Name" cannot be a cluster's name, which has at most 40 lower-case letters, digits and -: ` + "`rayctl ls` shows your clusters\n"},
		{Args: "wait nosuch", Code: runstate.CodeSpec, Err: "no cluster named \"nosuch\""},
		{Args: "events dev", Out: "2026-01-02T03:04:05Z   phase   Ready"},
		{Args: "events dev -o json", Out: `"event": "phase"`},
		{Args: "events old -w", Out: "2026-01-02T03:05:05Z phase Ready\n"},
		{Args: "events dev -w", Interrupt: true, Code: runstate.CodeInterrupted, Out: "2026-01-02T03:04:05Z phase Ready\n"},
		{Args: "events dev -w -o json", Interrupt: true, Code: runstate.CodeInterrupted, Out: `"event":"phase"`},
		{Args: "events queued", Err: "cluster queued has no events yet"},
		{Args: "history", Out: "old    local      2026-01-02T03:05:35Z   30 s   30             0      succeeded   -\n"},
		{Before: "down dev", Args: "history dev", Out: "30 s   30             -      down    -\n", Err: "", Calls: []string{"terminate dev"}},
		{Before: "down dev", Args: "status dev", Out: "node-seconds\n", Calls: []string{"terminate dev"}},
		{Before: "down dev", Args: "history -n 1", Out: "old", Err: "60 node-seconds in all\n1 more: --limit 2 lists them, too\n", Calls: []string{"terminate dev"}},
		{Before: "down dev", Args: "history -o wide -n 1", Out: "REASON\nold ", Err: "1 more", Calls: []string{"terminate dev"}},
		{Before: "down dev", Args: "history dev -o wide", Out: "   ended by rayctl down\n", Calls: []string{"terminate dev"}},
		{Args: "history --since 1m", Err: "nothing has ended yet"},
		{Args: "history --since 1w -o name", Out: "old\n"},
		{Args: "history --since 2026-01-01 -o name", Out: "old\n"},
		{Args: "history --since 2026-01-02T03:05:36Z", Err: "nothing has ended"},
		{Args: "history --since 2026-01-02T03:05:35Z -o name", Out: "old\n"},
		{Args: "history --since 2999-01-01", Code: runstate.CodeUsage, Err: "--since: 2999-01-01 is in the future: give a moment that has passed"},
		{Args: "history --since soon", Code: runstate.CodeUsage, Err: `--since: "soon" is neither a duration nor a date: write how long ago, like 90m`},
		{Args: "__complete history --since ''", Out: "24h\ta duration: one day ago\n1w\ta duration: one week ago\n2026-01-02\ta date: the beginning of today\n2026-01-01\ta date: the beginning of yesterday\n:36\n"},
		{Args: "history --json --since 2h", Out: `"name": "old"`},
		{Args: "history -o name", Out: "old\n"},
		{Args: "history -n 1 -o json", Out: `"record": true`},
		{Args: "history --launcher slurm", Err: "nothing has ended yet"},
		{Args: "history old -o name", Out: "old\n"},
		{Args: "history x", Err: "nothing of the name x has ended"},
	})
	failure := launcher.Fail(runstate.CodeUnreachable, nil, "try later", "slurmctld does not answer")
	apptest.Run(t, verbs, func() launcher.Launcher { return &apptest.Launcher{Failure: failure} }, []apptest.Line{
		{Args: "ls", Code: runstate.CodeUnreachable, Err: "slurmctld does not answer: try later"},
		{Args: "status", Code: runstate.CodeUnreachable, Err: "slurmctld does not answer: try later"},
		{Args: "down --all", Code: runstate.CodeUnreachable, Err: "slurmctld does not answer: try later"},
		{Args: "history", Err: "records cannot be listed: slurmctld does not answer: try later"},
	})
	for code, err := range map[int]error{runstate.CodeInternal: errors.New("broken"), runstate.CodePermission: fs.ErrPermission, runstate.CodeInterrupted: context.Canceled} {
		apptest.Run(t, verbs, func() launcher.Launcher { return &apptest.Launcher{Failure: err} }, []apptest.Line{{Args: "ls", Code: code, Err: "rayctl: " + err.Error() + "\n"}})
	}
}

// TestExtendGCDoctorLines: command lines of extend, gc and doctor.
func TestExtendGCDoctorLines(t *testing.T) {
	with := func() launcher.Launcher {
		return (&apptest.Launcher{
			Ray:     &apptest.Ray{},
			Garbage: []launcher.Collected{{What: "process", Name: "ray-7", Why: "its keeper is dead"}},
			Cached:  []launcher.Environment{{Dir: "/envs/ray-2.60.0", Bytes: 600e6, Used: apptest.Begin}},
			Checks:  []launcher.Check{{Name: "python", OK: true, Detail: "3.12"}},
		}).With("dev", "old", "queued")
	}
	apptest.Run(t, verbs, with, []apptest.Line{
		{Args: "scale dev", Code: runstate.CodeUsage, Err: "no group and size is given: write it like worker=4"},
		{Args: "scale dev worker", Code: runstate.CodeUsage, Err: `"worker" is not a group and its size`},
		{Args: "scale dev worker=5:2", Code: runstate.CodeUsage, Err: `"worker=5:2" is not a group and its size`},
		{Args: "scale dev worker=-1", Code: runstate.CodeUsage, Err: `"worker=-1" is not a group and its size`},
		{Args: "extend dev --max 4h", Out: "dev ends at 2026-01-02T03:04:05Z (lifetime.max)\n"},
		{Args: "extend dev --max 4h --idle 10m", Out: "if nothing runs on it until then (lifetime.idle"},
		{Args: "extend dev --max unlimited", Out: "dev has no limit: it runs until it is ended\n"},
		{Args: "extend dev --idle 1h -o json", Out: `"idle": "2026-01-02T03:04:05Z"`},
		{Args: "extend dev --by 30m", Out: "dev ends at 2026-01-02T03:34:05Z (lifetime.max)\n"},
		{Args: "extend dev +30m", Out: "dev ends at 2026-01-02T03:34:05Z (lifetime.max)\n"},
		{Args: "extend +30m", Code: runstate.CodeUsage, Err: "More than one cluster matches: dev, queued"},
		{Args: "extend dev +30m --idle 1h", Out: "if nothing runs on it until then (lifetime.idle"},
		{Args: "extend dev +30m --max 1h", Code: runstate.CodeUsage, Err: "+30m is the same as --by, and cannot be used with --max, --by or --at-most: give one of them"},
		{Args: "extend dev +", Code: runstate.CodeUsage, Err: "+ needs a duration: write it like +2h"},
		{Args: "extend dev +soon", Code: runstate.CodeUsage, Err: "--by: "},
		{Args: "extend dev 2h", Code: runstate.CodeUsage, Err: "\"2h\" does not say whether the cluster ends later by it: write `rayctl extend dev +2h`"},
		{Args: "extend dev soon", Code: runstate.CodeUsage, Err: `"soon" is not a duration by which the cluster ends later: write it like +2h`},
		{Args: "extend 1h", Code: runstate.CodeUsage, Err: "\"1h\" is a duration, and no cluster's name: `rayctl extend NAME +1h` lets a cluster end later by it"},
		{Args: "run --gpus 8 -- true", Code: runstate.CodeUsage, Err: "--gpus-per-worker: there are no workers: add --workers 1, or as many as you want\n"},
		{Args: "run --workers 2 --set workers[0].cpus=3 -- true", Code: runstate.CodeUsage, Err: "--set: workers[0].cpus: a worker group has a name, and no number: write --set workers.worker.cpus=3\n"},
		{Args: "run --set workers.1.replicas=3 -- true", Files: file("workers: [{name: a}, {name: b}]"), Code: runstate.CodeUsage, Err: "write --set workers.b.replicas=3\n"},
		{Args: "run --workr 3 -- true", Code: runstate.CodeUsage, Err: "`rayctl run` has no flag --workr: did you mean --workers [GROUP=]N"},
		{Args: "extend dev --at-most 1m", Out: "dev ends at 2026-01-02T03:04:05Z (lifetime.max)\n"},
		{Args: "extend dev --max 1m", Code: runstate.CodeUsage, Err: "--max 1m: the cluster would then end earlier than at present: lifetime.max leaves it 2m: `--at-most 1m` does that, `--by DURATION` moves the end"},
		{Args: "extend dev --at-most unlimited", Code: runstate.CodeUsage, Err: "--at-most takes a duration, not \"unlimited\": write it like 2h"},
		{Args: "extend dev --by 0", Code: runstate.CodeUsage, Err: "--by takes a duration"},
		{Args: "extend dev --by 1h --max 2h", Code: runstate.CodeUsage, Err: "--by and --max exclude one another: leave out all but one"},
		{Args: "extend dev", Code: runstate.CodeUsage, Err: "give +DURATION, --max, --by, --at-most or --idle"},
		{Args: "extend dev --max soon", Code: runstate.CodeUsage, Err: "--max: "},
		{Args: "extend dev --max 4h -o name", Code: runstate.CodeUsage, Err: `no output format "name"`},
		{Args: "extend queued --max 4h", Code: runstate.CodeUnreachable, Err: "cluster queued is not ready yet: `rayctl status -w queued` shows when"},
		{Args: "extend old --max 4h", Code: runstate.CodeSpec, Err: "cluster old has ended (succeeded): `rayctl logs old` shows its output"},
		{Args: "extend nosuch --max 4h", Code: runstate.CodeSpec, Err: `no cluster named "nosuch"`},
		{Args: "gc", Out: "removed process ray-7: its keeper is dead\n", Calls: []string{"reconcile"}},
		{Args: "gc --dry-run", Out: "would remove process ray-7: its keeper is dead\n"},
		{Args: "gc --dry-run", Out: "would remove", Err: "kept environment /envs/ray-2.60.0: 600 MB, last used 2026-01-02T03:04:05Z; --environments removes it if nothing uses it\n"},
		{Args: "gc --environments --dry-run", Out: "would remove environment /envs/ray-2.60.0: not used\n"},
		{Args: "gc --environments -o json", Out: `"name": "/envs/ray-2.60.0"`, JSON: true, Calls: []string{"reconcile", "collect environments"}},
		{Args: "gc --older-than 10m", Out: "removed record old: ended 2026-01-02T03:05:35Z\n", Calls: []string{"reconcile", "forget old"}},
		{Args: "gc --older-than 0 --dry-run -o json", Out: `"what": "record"`, JSON: true},
		{Args: "gc --older-than 7d", Out: "ray-7: its keeper is dead\n", Calls: []string{"reconcile"}},
		{Args: "gc --history", Code: runstate.CodeUsage, Err: "--history needs --older-than, which chooses the runs: add --older-than 0"},
		{Args: "gc --older-than 2026-01-02T03:05:36Z", Out: "removed record old: ended 2026-01-02T03:05:35Z\n", Calls: []string{"reconcile", "forget old"}},
		{Args: "gc --older-than 2026-01-01", Out: "ray-7: its keeper is dead\n", Calls: []string{"reconcile"}},
		{Args: "gc --older-than long", Code: runstate.CodeUsage, Err: `--older-than: "long" is neither a duration nor a date`},
		{Args: "gc -n", Code: runstate.CodeUsage, Err: "`rayctl gc` has no flag -n"},
		{Args: "gc --dry-run -o json", Out: `"what": "process"`},
		{Args: "gc x", Code: runstate.CodeUsage, Err: "takes no arguments"},
		{Args: "doctor", Out: "ok    python: 3.12\n", Err: "Checking what a cluster on this machine needs (default launcher)"},
		{Args: "doctor -o yaml", Out: "ok: true"},
		{Args: "doctor dev", Code: runstate.CodeUsage, Err: "takes no arguments"},
	})
	failed := func() launcher.Launcher {
		return &apptest.Launcher{Checks: []launcher.Check{{Name: "python", OK: true, Detail: "3.12"}, {Name: "ray", Detail: "is missing", Hint: "install it"}}}
	}
	apptest.Run(t, verbs, failed, []apptest.Line{
		{Args: "doctor", Code: runstate.CodeConfig, Out: "FAIL  ray: is missing\n      install it\n", Err: "rayctl: 1 of 2 checks failed: do what the failed checks say, then repeat `rayctl doctor`\n"},
		{Args: "doctor -o json", Code: runstate.CodeConfig, Out: `"ok": false`, Err: "1 of 2 checks failed"},
	})
}
