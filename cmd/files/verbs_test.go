package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// verbs are the commands of this package.
var verbs = apptest.Tree(NewCp, NewInit, NewRender, NewValidate, NewSchema)

// TestLines: command lines of cp, init, render and schema.
func TestLines(t *testing.T) {
	left := t.TempDir()
	if err := os.WriteFile(filepath.Join(left, "model"), []byte("weights"), 0o640); err != nil {
		t.Fatal(err)
	}
	with := func() launcher.Launcher { return (&apptest.Launcher{Results: left}).With("dev", "old") }
	one := map[string]string{"a": "text"}
	file := map[string]string{"rayctl.yaml": "name: filed\njob: {entrypoint: python a.py}\n", "a.py": ""}
	script := map[string]string{"x.sbatch": "#!/bin/bash\n#SBATCH -N 2\n#SBATCH -o %j.out\nexport HF_TOKEN=hf_s3cret LR=0.1\nsrun ray start --head &\npython a.py --lr $LR\n"}
	mine := func(version, file string) map[string]string {
		return map[string]string{"mine/template.yaml": "version: " + version + "\ntitle: ours\nfor: us\nparameters: [{name: nodes, type: int, default: 2, help: h}]\nnext: [{say: look at it}]\n", "mine/rayctl.yaml.tmpl": file}
	}
	two := map[string]string{"teams/a/template.yaml": "version: 1\ntitle: a\nfor: us\n", "teams/b/template.yaml": "version: 1\ntitle: b\nfor: us\n", "teams/b/b.txt": "b"}
	apptest.Run(t, verbs, with, []apptest.Line{
		{Args: "cp a dev:b", Files: one, Made: "b", Err: "local cluster dev\ncopied a to dev:/"},
		{Args: "cp :a c", Files: one, Made: "c", Err: "local cluster dev (the only one)"},
		{Args: "cp a :a", Files: one, Code: runstate.CodeSpec, Err: "are the same file or directory: nothing was copied"},
		{Args: "cp a", Code: runstate.CodeUsage, Err: "`rayctl cp` takes a source and a destination: write it like `rayctl cp dev:/tmp/x .`"},
		{Args: "cp ./a b", Code: runstate.CodeUsage, Err: `exactly one of "./a" and "b" must be a path on a cluster: write one as NAME:PATH`},
		{Args: "cp dev:a dev:b", Code: runstate.CodeUsage, Err: "must be a path on a cluster"},
		{Args: "cp a dev:", Files: one, Code: runstate.CodeUsage, Err: "the path on the cluster is empty, and dev has no output directory: write NAME:PATH"},
		{Args: "cp old: got", Made: "got/model", Err: "local cluster old\n"},
		{Args: "cp old: .", Made: "model", Err: "/. to "},
		{Args: "cp old: got/", Before: "cp old: got/", Made: "got/model"},
		{Args: "cp old: got", Before: "cp old: got", Made: "got/model", Files: map[string]string{"got/model": "older"}},
		{Args: "cp old:" + left + "/model m", Made: "m", Err: "local cluster old\n"},
		{Args: "cp old:model m", Made: "m", Err: "copied old:" + left + "/model to "},
		{Args: "cp old:nosuch m", Code: runstate.CodeSpec, Err: "there is no \"nosuch\" in the output directory of old, " + left + ": give an absolute path"},
		{Args: "cp old: x --node head-0", Code: runstate.CodeSpec, Err: "cluster old has ended, and its nodes with it: leave --node out for what it left"},
		{Args: "cp dev: x", Code: runstate.CodeUsage, Err: "cluster dev has nothing in an output directory: write NAME:PATH"},
		{Args: "cp nosuch: x", Code: runstate.CodeSpec, Err: `no cluster named "nosuch"`},
		{Args: "cp dev:/ x", Code: runstate.CodeUsage, Err: "the root directory cannot be copied: name a file or directory in it"},
		{Args: "cp nosuch dev:b", Code: runstate.CodeSpec, Err: "there is no file nosuch here"},
		{Args: "cp nosuch b", Code: runstate.CodeUsage, Err: "there is no file nosuch here: `rayctl cp nosuch: DST` copies the output directory of a run, NAME:PATH a file"},
		{Args: "cp dev:nosuch b", Code: runstate.CodeSpec, Err: "on dev: there is no ./nosuch, or it may not be seen"},
		{Args: "cp a dev:b --node nosuch", Files: one, Code: runstate.CodeSpec, Err: `no node "nosuch"`},
		{Args: "cp a old:b", Files: one, Code: runstate.CodeSpec, Err: `no cluster named "old"`},
		{Args: "cp a Not_A_Name:b", Files: one, Code: runstate.CodeUsage, Err: `"Not_A_Name" cannot be a cluster's name`},
		{Args: "__complete cp ''", Files: one, Out: "dev:\tlocal, Ready\na\n:6\n"},
		{Args: "__complete cp a ''", Files: one, Out: "dev:\tlocal, Ready\n:6\n"},
		{Args: "__complete cp ./", Out: ":0\n"},
		{Args: "__complete cp dev:a ''", Out: ":0\n"},
		{Args: "__complete cp a dev:b --node ''", Out: "head-0\there\n:4\n"},
		{Args: "init", Out: "rayctl.yaml\n", Err: "next: `rayctl run`\n"},
		{Args: "init serve --dir new", Made: "new/serve.yaml", Out: "new/rayctl.yaml\n", Err: "next: `cd new && rayctl up && rayctl serve apply -f serve.yaml`"},
		{Args: "init serve --dir new", Made: "new/serve.yaml", Out: "new/rayctl.yaml\n", Err: "; on a cluster that runs already, `cd new && rayctl serve apply -f serve.yaml NAME`\n"},
		{Args: "init --template training", Made: "train.py", Out: "rayctl.yaml\n"},
		{Args: "init rl", Before: "init grpo", Code: runstate.CodeUsage, Err: "rayctl.yaml already exists"},
		{Args: "init train --dir x/Ray_Trial.2/_", Before: "init train --dir x/Ray_Trial.2", Made: "x/Ray_Trial.2/_/rayctl.yaml", Out: "rayctl.yaml\n"},
		{Args: "render --spec -f x/Ray_Trial.2/rayctl.yaml", Before: "init train --dir x/Ray_Trial.2", Out: "name: ray-trial-2\n"},
		{Args: "render --spec -f x/__/rayctl.yaml", Before: "init train --dir x/__", Out: "name: ray\n"},
		{Args: "render --spec -f x/null/rayctl.yaml", Before: "init train --dir x/null", Out: "name: \"null\"\n"},
		{Args: "init --force", Files: file, Out: "rayctl.yaml\n"},
		{Args: "init", Files: file, Code: runstate.CodeUsage, Err: "rayctl.yaml already exists: give --force, or another --dir"},
		{Args: "init nosuch", Code: runstate.CodeUsage, Err: `there is no template "nosuch": there are `},
		{Args: "init", Files: map[string]string{"main.py": "own"}, Made: "rayctl.yaml", Out: "rayctl.yaml\n", Err: "main.py exists already and is not changed\n"},
		{Args: "init ci", Code: runstate.CodeUsage, Err: "the CI system is not said: `rayctl init github` writes a GitHub workflow, and `rayctl init gitlab` a .gitlab-ci.yml"},
		{Args: "init CI", Files: map[string]string{".github/CODEOWNERS": ""}, Made: ".github/workflows/rayctl.yml", Out: ".github/workflows/rayctl.yml\n", Err: "`rayctl init` writes one"},
		{Args: "init github-actions --dir new", Files: file, Made: "new/.github/workflows/rayctl.yml", Out: "new/.github/workflows/rayctl.yml\n", Err: "uses the branch main, which changes: give `--set rayctlVersion=TAG` with a tag or a commit\nthe files need rayctl.yaml, which is not there yet: `rayctl init` writes one, or set the command in the file\nnext: commit the file and push\n"},
		{Args: "init github --set rayctlVersion=v1.2.3", Files: file, Made: ".github/workflows/rayctl.yml", Out: ".github/workflows/rayctl.yml\n", Unsaid: "main"},
		{Args: "init github --set rayctlVersion=v1:x", Code: runstate.CodeUsage, Err: "rayctlVersion cannot be"},
		{Args: "init GitLab", Files: file, Made: ".gitlab-ci.yml", Out: ".gitlab-ci.yml\n", Err: "next: commit the file and push\n", Unsaid: "not there"},
		{Args: "init gitlab", Before: "init gitlab", Code: runstate.CodeUsage, Err: ".gitlab-ci.yml already exists: give --force"},
		{Args: "init train --set nodes=4 --launcher slurm", Made: "train.py", Out: "rayctl.yaml\n", Err: "next: `rayctl run`\n"},
		{Args: "init train --set nodes=0", Code: runstate.CodeUsage, Err: `nodes cannot be "0": give a whole number from 1 to 1000000`},
		{Args: "init train --set node=1", Code: runstate.CodeUsage, Err: `template train has no parameter "node": did you mean nodes?`},
		{Args: "init train --launcher slrum", Code: runstate.CodeUsage, Err: `launcher cannot be "slrum": did you mean slurm?`},
		{Args: "init github --launcher slurm", Code: runstate.CodeUsage, Err: "template github is the same for all launchers: leave the launcher out"},
		{Args: "init data --set replicas=9", Code: runstate.CodeUsage, Err: "replicas + 2 = 11 is more than nodes * cpus = 4, but each replica takes a CPU"},
		{Args: "init trian", Code: runstate.CodeUsage, Err: "there is no template \"trian\": did you mean train?"},
		{Args: "init --list", Out: "train      Ray Train"},
		{Args: "init --list -o json", JSON: true, Out: `"name": "train"`},
		{Args: "init -o json", Code: runstate.CodeUsage, Err: "-o is for --list and --params"},
		{Args: "init --params train", Out: "nodes       2                 1 to 1000000"},
		{Args: "init --params train -o name", Out: "nodes\ncpus\ngpus\nsteps\nname\nlauncher\n"},
		{Args: "init verl --set model=/shared/models/qwen --set shared=/shared", Made: "prepare.sh", Out: "rayctl.yaml\n", Err: "next: "},
		{Args: "init verl --set model=qwen", Code: runstate.CodeUsage, Err: "model cannot be \"qwen\": give text like Qwen/Qwen3-8B, or /shared/models/qwen"},
		{Args: "init verl --set model=/a;b", Code: runstate.CodeUsage, Err: "model cannot be \"/a;b\": give text like Qwen/Qwen3-8B, or /shared/models/qwen"},
		{Args: "init --from x --set a=b", Code: runstate.CodeUsage, Err: "a template and --from exclude one another"},
		{Args: "init ./mine --set nodes=3", Files: mine("1", "name: [[ yaml .name ]] # [[ yaml .nodes ]]"), Made: "rayctl.yaml", Out: "rayctl.yaml\n", Err: "next: look at it"},
		{Args: "init ./mine", Files: mine("1", "[[ .nodes ]]"), Code: runstate.CodeSpec, Err: "mine/rayctl.yaml.tmpl: {{.nodes}} is not quoted"},
		{Args: "init ./mine", Files: mine("2", ""), Code: runstate.CodeSpec, Err: "mine/template.yaml: its format has the version 2: another rayctl may know it"},
		{Args: "init mine", Files: mine("1", ""), Code: runstate.CodeUsage, Err: "there is no template \"mine\": did you mean `rayctl init ./mine`?"},
		{Args: "init ./nosuch", Code: runstate.CodeSpec, Err: "./nosuch: the folder cannot be read: no such file or directory: name a folder with a template.yaml"},
		{Args: "init https://me:s3cret@example.org/teams.git", Code: runstate.CodeSpec, Err: "https://example.org/teams.git: it is the address of a repository, and init reads directories: clone it and name its directory\n", Unsaid: "s3cret"},
		{Args: "init git@example.org:teams", Code: runstate.CodeSpec, Err: "git@example.org:teams: it is the address of a repository, and init reads directories: clone it and name its directory\n"},
		{Args: "init ./teams", Files: two, Code: runstate.CodeUsage, Err: "./teams has several templates: give `rayctl init ./teams/a` or `rayctl init ./teams/b`"},
		{Args: "init ./teams --list -o name", Files: two, Out: "a\nb\n"},
		{Args: "init ./teams/b", Files: two, Made: "b.txt", Out: "b.txt\n", Unsaid: "next:"},
		{Args: "init ./teams/c", Files: map[string]string{"teams/c/template.yaml": "version: 1\ntitle: c\nfor: us\nplace: ../x\n"}, Code: runstate.CodeSpec, Err: "place \"../x\" is not a folder below the one that the user names"},
		{Args: "init", Terminal: true, Stdin: "99\ntraining\n\n0\n3\n\n\n\n\n", Made: "train.py", Out: "rayctl.yaml\n", Err: "nodes cannot be \"0\": give a whole number from 1 to 1000000: "},
		{Args: "init --set nodes=3", Terminal: true, Stdin: "\n\n\n\n\n", Made: "main.py", Out: "rayctl.yaml\n", Err: "Which template? [basic] ", Unsaid: "nodes:"},
		{Args: "init basic", Terminal: true, Stdin: "slurm\n5\n\n\n\n", Made: "main.py", Out: "rayctl.yaml\n", Err: "launcher: where the clusters are (local, slurm, kuberay) [local] nodes: workers; each one is a Ray node [2] cpus: ", Unsaid: "Which"},
		{Args: "init basic -y", Terminal: true, Made: "main.py", Out: "rayctl.yaml\n", Err: "next: `rayctl run`", Unsaid: "nodes:"},
		{Args: "init -y", Terminal: true, Made: "main.py", Out: "rayctl.yaml\n", Err: "next: `rayctl run`", Unsaid: "Which"},
		{Args: "init basic --set cpus=2", Terminal: true, Made: "main.py", Out: "rayctl.yaml\n", Err: "next: `rayctl run`", Unsaid: "nodes:"},
		{Args: "init github", Terminal: true, Stdin: "\n", Files: file, Made: ".github/workflows/rayctl.yml", Out: ".github/workflows/rayctl.yml\n", Err: "[main] next: commit", Unsaid: "name:"},
		{Args: "init data", Terminal: true, Stdin: "\n2\n1\n5\n\n\n\n4\n\n\n", Made: "rayctl.yaml", Out: "rayctl.yaml\n",
			Err: "replicas + 2 = 7 is more than nodes * cpus = 2, but each replica takes a CPU, and so do finding what is done, and reading and writing: give 7 for nodes\nnodes: workers; each one is a Ray node [2] cpus: "},
		{Args: "init --set replicas=9", Terminal: true, Stdin: "data\n\n\n\n\n\n\n\n2\n\n", Made: "rayctl.yaml", Out: "rayctl.yaml\n", Err: "replicas: copies of the model [9] "},
		{Args: "init serve", Terminal: true, Stdin: "\n\n\nNot A Name\nmine\n", Made: "rayctl.yaml", Out: "rayctl.yaml\n", Err: "name cannot be \"Not A Name\": use at most 40 lower-case letters"},
		{Args: "init verl", Terminal: true, Stdin: strings.Repeat("\n", 15), Made: "train.sh", Out: "rayctl.yaml\n", Err: "samples: ", Unsaid: "claim:"},
		{Args: "init verl --launcher kuberay", Terminal: true, Stdin: strings.Repeat("\n", 17), Made: "train.sh", Out: "rayctl.yaml\n", Err: "claim: PersistentVolumeClaim of this directory on Kubernetes [shared] ", Unsaid: "launcher:"},
		{Args: "init ./teams", Terminal: true, Stdin: "2\n", Files: two, Made: "b.txt", Out: "b.txt\n", Err: " 1  a  a\n 2  b  b\nWhich template? [a] "},
		{Args: "init ./mine", Terminal: true, Stdin: "7\n\n", Files: mine("1", "name: [[ yaml .name ]] # [[ yaml .nodes ]]"), Made: "rayctl.yaml", Out: "rayctl.yaml\n", Err: "nodes: h [2] "},
		{Args: "__complete init ''", Out: "train\tdata-parallel training"},
		{Args: "__complete init ./", Out: ":16\n"},
		{Args: "__complete init train --set ''", Out: "nodes=\tworkers; each one"},
		{Args: "__complete init train --set launcher=", Out: "launcher=local\nlauncher=slurm\nlauncher=kuberay\n:4\n"},
		{Args: "__complete init train --launcher ''", Out: "local\nslurm\nkuberay\n:4\n"},
		{Args: "init a b", Code: runstate.CodeUsage, Err: "`rayctl init` takes one template"},
		{Args: "init --from x.sbatch", Files: script, Made: "rayctl.yaml", Out: "rayctl.yaml\n", Err: "not translated: line 3: --output=%j.out: `rayctl logs` shows the output, also after the end\nto check: line 4: the value of HF_TOKEN is not copied: it is a secret, which rayctl takes from your environment\nnext: read rayctl.yaml, `rayctl validate -f rayctl.yaml`; `rayctl run`\n", Unsaid: "hf_s3cret"},
		{Args: "init --from - --dir a/b", Stdin: "ray job submit --working-dir . -- python a.py\n", Made: "a/b/rayctl.yaml", Out: "a/b/rayctl.yaml\n", Err: "job.workingDir is relative to the cluster file, which is in another directory\nnext: read a/b/rayctl.yaml, `rayctl validate -f a/b/rayctl.yaml`; `rayctl run -f a/b/rayctl.yaml`\n"},
		{Args: "init --from x.sbatch --dir it's", Files: script, Made: "it's/rayctl.yaml", Out: "it's/rayctl.yaml\n", Err: "to check: relative paths of the job count from where you call rayctl, not from the cluster file: call it where the script was called, or set job.cwd\nnext: read it's/rayctl.yaml, `rayctl validate -f 'it'\"'\"'s/rayctl.yaml'`; `rayctl run -f 'it'\"'\"'s/rayctl.yaml'`\n"},
		{Args: "render --spec -f rayctl.yaml", Files: script, Before: "init --from x.sbatch", Out: "entrypoint: python a.py --lr 0.1\n", Err: "using rayctl.yaml"},
		{Args: "validate", Files: script, Before: "init --from x.sbatch", Code: runstate.CodeConfig, Err: "HF_TOKEN"},
		{Args: "init --from x.sbatch", Files: script, Before: "init", Code: runstate.CodeUsage, Err: "rayctl.yaml already exists: give --force, or another --dir"},
		{Args: "init --from x.sbatch --force", Files: script, Before: "init", Made: "rayctl.yaml", Out: "rayctl.yaml\n", Err: "next: read rayctl.yaml"},
		{Args: "init grpo --from x.sbatch", Files: script, Code: runstate.CodeUsage, Err: "a template and --from exclude one another: leave one of them out"},
		{Args: "init --from=", Code: runstate.CodeUsage, Err: "--from is empty"},
		{Args: "init --from nosuch", Code: runstate.CodeSpec, Err: "nosuch: cannot be read: no such file or directory: name a batch script"},
		{Args: "init --from .", Code: runstate.CodeSpec, Err: ".: cannot be read: is a directory: name a batch script"},
		{Args: "init --from big", Files: map[string]string{"big": strings.Repeat("x", 10<<20)}, Code: runstate.CodeSpec, Err: "big: is larger than 4 MiB, which no script or manifest is: give a batch script"},
		{Args: "init --from x", Files: map[string]string{"x": "\x7fELF\x00"}, Code: runstate.CodeSpec, Err: "x: is not a text file in UTF-8: give a batch script"},
		{Args: "init --from x", Files: map[string]string{"x": "#!/bin/sh\necho\n"}, Code: runstate.CodeSpec, Err: "x: does not start Ray"},
		{Args: "validate -f x.sbatch", Files: script, Code: runstate.CodeSpec, Err: "x.sbatch: is a shell script, not a cluster file: `rayctl init --from x.sbatch` writes the rayctl.yaml of a script that starts Ray"},
		{Args: "validate", Files: file, Err: "Valid; it would start on this machine (default launcher)"},
		{Args: "validate", Files: map[string]string{"rayctl.yaml": "job: {entrypoint: x}\nhead: {cpus: 2}\nworkers: [{name: w, shm: 1Gi}]"},
			Err: "workers.w.shm is ignored: /dev/shm is the machine's; objectStoreMemory is the size of Ray's object store\nhead.cpus is ignored: a head beside workers"},
		{Args: "validate", Files: map[string]string{"rayctl.yaml": "job: {entrypoint: bash train.sh, workingDir: .}\nworkers: [{name: w, replicas: 4, gpus: 8}]", "train.sh": "python -m verl.trainer.main_ppo trainer.nnodes=8\n"},
			Code: runstate.CodeSpec, Err: "train.sh has trainer.nnodes 8, and the cluster file has at most 4 nodes with GPUs: make them equal"},
		{Args: "validate -- python nosuch.py", Code: runstate.CodeSpec, Err: "there is no file nosuch.py in "},
		{Args: "validate --each-node=2 -- true", Code: runstate.CodeSpec, Err: "has 1 CPU for 2 processes"},
		{Args: "validate", Files: map[string]string{"rayctl.yaml": "mounts: [/nosuch/dir]\njob: {entrypoint: 'true'}"}, Code: runstate.CodeSpec, Err: "mounts[0]: the source /nosuch/dir is no directory of this machine: make it, or correct source.local"},
		{Args: "validate --launcher slurm", Files: map[string]string{"rayctl.yaml": "mounts: [/nosuch/dir]\njob: {entrypoint: 'true'}"}, Err: "Valid; it would start on Slurm"},
		{Args: "validate --up --name a", Err: "Valid; it would start on this machine (default launcher)"},
		{Args: "validate", Code: runstate.CodeSpec, Err: "there is no command to run"},
		{Args: "validate", Files: map[string]string{"rayctl.yaml": "nosuch: 1"}, Code: runstate.CodeSpec, Err: `rayctl.yaml:1: unknown key "nosuch"`},
		{Args: "cp -r a dev:b", Files: one, Made: "b", Err: "local cluster dev\n"},
		{Args: "render", Files: file, Out: "# --- script.sh\nlaunch filed: python a.py\n"},
		{Args: "render --name a -o name -- true", Out: "script.sh\n"},
		{Args: "render --name a -o json -- true", Out: `"content": "launch a: true"`},
		{Args: "render --up", Files: file, Out: "launch filed: \n"},
		{Args: "render --dir out", Files: file, Made: "out/script.sh", Out: "out/script.sh\n"},
		{Args: "render --networkpolicy", Files: file, Code: runstate.CodeUsage, Err: "render --networkpolicy is not supported by the"},
		{Args: "render --networkpolicy --spec", Files: file, Code: runstate.CodeUsage, Err: "--networkpolicy and --spec exclude one another"},
		{Args: "render --spec", Files: file, Out: "entrypoint: python a.py"},
		{Args: "render --spec -o json", Files: file, Out: `"entrypoint": "python a.py"`},
		{Args: "render --origin", Files: file, Out: "job.entrypoint"},
		{Args: "render --origin --spec", Files: file, Code: runstate.CodeUsage, Err: "--origin and --spec exclude one another"},
		{Args: "render x", Code: runstate.CodeUsage, Err: "Put the command after `--`: rayctl render -- x"},
		{Args: "render -o xml", Code: runstate.CodeUsage, Err: `no output format "xml"`},
		{Args: "render -f nosuch.yaml", Code: runstate.CodeSpec, Err: "nosuch.yaml: the cluster file cannot be read"},
		{Args: "render --launcher kuberay -- true", Code: runstate.CodeUsage, Err: "this rayctl has no kuberay launcher"},
		{Args: "schema", Out: `"$schema"`},
		{Args: "schema x", Code: runstate.CodeUsage, Err: "`rayctl schema` takes no arguments"},
	})
	apptest.Run(t, verbs, func() launcher.Launcher { return new(apptest.Launcher).With("old") }, []apptest.Line{
		{Args: "cp old: x", Code: runstate.CodeSpec, Err: "run old left nothing in an output directory: drivers write results to $RAYCTL_OUTPUT_DIR"},
		{Args: "cp old:model m", Code: runstate.CodeSpec, Err: `cluster old has ended without an output directory, in which "model" could be: give an absolute path; what a driver writes to $RAYCTL_OUTPUT_DIR is found by its name after the end`},
	})
	empty := t.TempDir()
	apptest.Run(t, verbs, func() launcher.Launcher { return (&apptest.Launcher{Results: empty}).With("old") }, []apptest.Line{
		{Args: "cp old: x", Code: runstate.CodeSpec, Err: "the output directory of run old is empty: " + empty + ": drivers write results to $RAYCTL_OUTPUT_DIR"},
	})
	ends := func() launcher.Launcher { return (&apptest.Launcher{FilesEnd: "mount NAME again"}).With("old") }
	apptest.Run(t, verbs, ends, []apptest.Line{{Args: "cp old: x", Code: runstate.CodeSpec, Err: "cluster old has ended, and the files of its pods with it, except for what is on mounted storage: mount old again"}})
}

// TestInitLinks: a template writes nothing through a link to another directory, with --force, too, and replaces a file that is a link instead of writing to what it names.
func TestInitLinks(t *testing.T) {
	for name, c := range map[string]struct {
		link, to string
		code     int
		err      string
	}{
		"a folder":         {"new/sub", "../away", runstate.CodeUsage, "new/sub/b.txt cannot be written: a link in its path leads to another directory: give another --dir"},
		"an absolute path": {"new/sub", os.TempDir(), runstate.CodeUsage, "new/sub/b.txt cannot be written: a link in its path leads to another directory"},
		"another folder":   {"new/sub", "other", 0, ""},
		"a file":           {"new/a.txt", "../away/a.txt", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for path, text := range map[string]string{"team/template.yaml": "version: 1\ntitle: t\nfor: us\n", "team/a.txt": "new", "team/sub/b.txt": "new", "away/a.txt": "theirs", "new/other/x": ""} {
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(c.to, c.link); err != nil {
				t.Fatal(err)
			}
			a, _, stderr := apptest.New()
			if code := a.Execute(t.Context(), verbs, []string{"init", "./team", "--dir", "new", "--force"}); code != c.code || !strings.Contains(stderr.String(), c.err) {
				t.Errorf("code %d, %s", code, stderr)
			}
			theirs, err := os.ReadFile("away/a.txt")
			if all, _ := os.ReadDir("away"); err != nil || string(theirs) != "theirs" || len(all) != 1 {
				t.Errorf("away/a.txt has %q, away has %v, %v", theirs, all, err)
			}
			if _, err := os.Stat("new/a.txt"); (err == nil) != (c.code == 0) {
				t.Errorf("with code %d: new/a.txt: %v", c.code, err)
			}
		})
	}
}

// TestInitUnanswered: where the input ends at a question, nothing is written.
func TestInitUnanswered(t *testing.T) {
	t.Chdir(t.TempDir())
	a, out, stderr := apptest.New()
	a.In, a.InTTY, a.OutTTY, a.ErrTTY = strings.NewReader("\n"), true, true, true
	code := a.Execute(t.Context(), verbs, []string{"init"})
	if there, _ := os.ReadDir("."); code != runstate.CodeUsage || out.Len() > 0 || len(there) > 0 || !strings.Contains(stderr.String(), "the questions are not answered, and nothing is written: answer them") {
		t.Errorf("code %d, stdout %q, stderr %q, files %v", code, out, stderr, there)
	}
}

// TestInitAsksNobody: without a person at a terminal, with -y and in CI no question is asked. A directory with several templates names them then.
func TestInitAsksNobody(t *testing.T) {
	for name, c := range map[string]struct {
		change func(a *app.App)
		flags  []string
	}{
		"stdin is no terminal":  {func(a *app.App) { a.InTTY = false }, nil},
		"stdout is no terminal": {func(a *app.App) { a.OutTTY = false }, nil},
		"stderr is no terminal": {func(a *app.App) { a.ErrTTY = false }, nil},
		"CI": {func(a *app.App) {
			a.Getenv = func(name string) string { return map[string]string{"CI": "true"}[name] }
		}, nil},
		"-y": {func(*app.App) {}, []string{"-y"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			apptest.WriteFiles(t, ".", map[string]string{"teams/a/template.yaml": "version: 1\ntitle: a\nfor: us\n", "teams/b/template.yaml": "version: 1\ntitle: b\nfor: us\n"})
			for _, line := range []struct {
				args []string
				code int
				says string
			}{
				{[]string{"init", "--dir", "first"}, 0, "next: "},
				{[]string{"init", "train", "--dir", "second"}, 0, "next: "},
				{[]string{"init", "./teams"}, runstate.CodeUsage, "./teams has several templates: give `rayctl init ./teams/a` or `rayctl init ./teams/b`"},
			} {
				a, _, stderr := apptest.New()
				a.InTTY, a.OutTTY, a.ErrTTY = true, true, true
				c.change(a)
				if code := a.Execute(t.Context(), verbs, append(line.args, c.flags...)); code != line.code || !strings.Contains(stderr.String(), line.says) || strings.Contains(stderr.String(), "] ") {
					t.Errorf("%q: code %d, %s", line.args, code, stderr)
				}
			}
		})
	}
}
