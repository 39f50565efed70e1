package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// verbs are the commands of this package.
var verbs = apptest.Tree(NewSubmit, NewJobs, NewLogs, NewStop)

// drivers makes a launcher with clusters in each state, whose jobs exit with this code.
func drivers(code int) func() launcher.Launcher {
	return func() launcher.Launcher {
		ray := &apptest.Ray{Code: code, Output: "hello\nworld\n"}
		ray.Jobs = []map[string]any{ray.Job("raysubmit_1", "python a.py")}
		return (&apptest.Launcher{Ray: ray, Code: code, Output: "saved\noutput\n"}).With("dev", "old", "queued")
	}
}

// TestSubmitLines: command lines of submit.
func TestSubmitLines(t *testing.T) {
	apptest.Run(t, verbs, drivers(0), []apptest.Line{
		{Args: "submit dev -- true", Out: "hello\nworld\n", Err: "local cluster dev\njob raysubmit_"},
		{Args: "submit dev --submission-id mine -- true", Out: "hello\nworld\n", Err: "mine succeeded\n  time    2.0 s from the submission to the end\n  log     `rayctl logs -c dev mine`\n"},
		{Args: "submit dev -q --submission-id mine -- true", Out: "hello\nworld\n", Unsaid: "succeeded"},
		{Args: "submit dev -q --submission-id mine --no-wait -- true", Out: "mine\n"},
		{Args: "submit -c dev --submission-id mine --no-wait -- true", Out: "mine\n", Err: "is deleted with the cluster: `rayctl logs -c dev mine > FILE` saves it\nnext: `rayctl logs -c dev mine -f`; `rayctl stop -c dev mine`"},
		{Args: "submit dev --submission-id mine --no-wait -o json --metadata a=b -- true", Out: `"a": "b"`},
		{Args: "submit dev -o json -- true", Out: `"driver_exit_code": 0`, JSON: true, Err: "hello\nworld\n"},
		{Args: "submit dev -o json -- true", Out: `"state": "SUCCEEDED"`, JSON: true},
		{Args: "submit dev -o yaml -- true", Out: "status: SUCCEEDED\n"},
		{Args: "submit dev --detach --submission-id mine -o json -- true", Out: `"submissionId": "mine"`, JSON: true},
		{Args: "submit dev -o name --submission-id mine -- true", Out: "mine\n", Err: "hello\nworld\n"},
		{Args: "submit dev -d --submission-id mine -- true", Out: "mine\n", Err: "next: `rayctl logs -c dev mine -f`"},
		{Args: "submit dev --detach --submission-id mine -o json -- true", Out: `"submission_id": "mine"`, JSON: true},
		{Args: "submit dev -q -o yaml -- true", Out: "driver_exit_code: 0"},
		{Args: "submit dev --no-wait --submission-id mine", Files: map[string]string{"rayctl.yaml": "job: {entrypoint: python b.py}"}, Out: "mine\n", Err: "using "},
		{Args: "submit dev -- a|b", Out: "hello\n", Err: "for a shell command write `-- sh -c 'a|b'`"},
		{Args: "submit dev a.py --detach --submission-id mine -o json", Files: map[string]string{"a.py": ""}, Out: "python a.py", JSON: true},
		{Args: "submit -c dev a.py -d --submission-id mine", Files: map[string]string{"a.py": ""}, Out: "mine\n"},
		{Args: "submit -c dev -d -o json --submission-id mine a.py --lr 1", Files: map[string]string{"a.py": ""}, Out: "python a.py --lr 1", JSON: true},
		{Args: "submit dev", Code: runstate.CodeSpec, Err: "job.entrypoint: there is no command to run: give it after --, as in `rayctl submit -- python train.py`"},
		{Args: "submit queued --working-dir ../t3 batch.py", Files: map[string]string{"../t3/batch.py": ""}, Code: runstate.CodeUnreachable, Err: "cluster queued is not ready yet"},
		{Args: "submit queued --working-dir ../t3 nosuch.py", Files: map[string]string{"../t3/batch.py": "", "nosuch.py": ""}, Code: runstate.CodeSpec, Err: "there is no file nosuch.py in the working directory "},
		{Args: "submit a b -- true", Code: runstate.CodeUsage, Err: "Put the command after `--`: rayctl submit a -- b true"},
		{Args: "submit a -c b -- true", Code: runstate.CodeUsage, Err: `the cluster is given twice: "a" and by a flag: leave one of them out`},
		{Args: "submit -c a --address http://x -- true", Code: runstate.CodeUsage, Err: "--address and --cluster exclude one another"},
		{Args: "submit dev --submission-id a/b -- true", Code: runstate.CodeUsage, Err: `--submission-id: the submission id "a/b"`},
		{Args: "submit dev --metadata a -- true", Code: runstate.CodeUsage, Err: `--metadata: "a" is not a pair: write it KEY=VALUE`},
		{Args: "submit dev --entrypoint-num-cpus -1 -- true", Code: runstate.CodeUsage, Err: "the driver's resources are numbers from 0: correct --entrypoint-num-cpus or --entrypoint-num-gpus"},
		{Args: "submit dev --entrypoint-num-gpus NaN -- true", Code: runstate.CodeUsage, Err: "the driver's resources are numbers from 0"},
		{Args: "submit dev --entrypoint-memory much -- true", Code: runstate.CodeUsage, Err: `--entrypoint-memory: "much" is not an amount of memory: write it like 2Gi`},
		{Args: "submit dev --entrypoint-resources tpu=x -- true", Code: runstate.CodeUsage, Err: `--entrypoint-resources: "x" is not an amount of tpu: write a number from 0, like tpu=1`},
		{Args: "submit dev --working-dir nosuch -- true", Code: runstate.CodeSpec, Err: "nosuch does not exist"},
		{Args: "submit dev --working-dir a.tar -- true", Files: map[string]string{"a.tar": ""}, Code: runstate.CodeSpec, Err: "a.tar is a file: give the directory it is in, or a .zip file"},
		{Args: "submit dev --working-dir a.zip -- true", Files: map[string]string{"a.zip": "text"}, Code: runstate.CodeSpec, Err: "a.zip is not a zip file that Ray can unpack: give a directory"},
		{Args: "submit dev -q -d -o json --runtime-env-json {\"env_vars\":{\"SEED\":\"1\"},\"conda\":\"base\"} -- true", Out: `"SEED": "1"`, JSON: true},
		{Args: "submit dev --headers {} -- true", Code: runstate.CodeUsage, Err: "has no flag --headers: other users of the machine can read a command line: export RAY_JOB_HEADERS"},
		{Args: "submit dev -o wide -- true", Code: runstate.CodeUsage, Err: `no output format "wide"`},
		{Args: "submit --address nonsense -- true", Code: runstate.CodeUsage, Err: `"nonsense" is not the address of a dashboard: give it like http://127.0.0.1:8265`},
		{Args: "submit queued -- true", Code: runstate.CodeUnreachable, Err: "cluster queued is not ready yet"},
		{Args: "submit old -- true", Code: runstate.CodeSpec, Err: "cluster old has ended (succeeded)"},
		{Args: "submit nosuch -- true", Code: runstate.CodeSpec, Err: `no cluster named "nosuch"`},
		{Args: "submit -- true", Code: runstate.CodeUsage, Err: "More than one cluster matches: dev, queued. Choose one with -c NAME"},
	})
	apptest.Run(t, verbs, drivers(4), []apptest.Line{
		{Args: "submit dev -q -- false", Code: 4, Out: "hello\nworld\n"},
		{Args: "submit dev --submission-id mine -- false", Code: 4, Out: "hello\nworld\n", Err: "mine failed: the driver exited with code 4\n  time "},
	})
}

// TestMissingModule: who follows a driver that fails without a module is shown the flag that installs it.
func TestMissingModule(t *testing.T) {
	const hint = "no module yaml: `--pip PyYAML` installs it on every node\n"
	apptest.Run(t, verbs, func() launcher.Launcher {
		ray := &apptest.Ray{Code: 1, Output: "ModuleNotFoundError: No module named 'yaml'\n"}
		ray.Jobs = []map[string]any{ray.Job("raysubmit_1", "python a.py")}
		return (&apptest.Launcher{Ray: ray}).With("dev")
	}, []apptest.Line{
		{Args: "submit dev -- false", Code: 1, Out: "ModuleNotFoundError", Err: hint},
		{Args: "logs -f dev", Code: 1, Out: "ModuleNotFoundError", Err: hint},
		{Args: "logs dev", Out: "ModuleNotFoundError"},
	})
}

// TestJobLines: command lines of jobs, logs and stop.
func TestJobLines(t *testing.T) {
	apptest.Run(t, verbs, drivers(0), []apptest.Line{
		{Args: "jobs dev", Out: "raysubmit_1   SUCCEEDED   2026-01-02T03:04:05Z   2.0 s   python a.py\n"},
		{Args: "jobs -c dev -o name", Out: "raysubmit_1\n"},
		{Args: "jobs dev -o wide", Out: "SUBMISSION"},
		{Args: "jobs dev -o json", Out: `"submission_id": "raysubmit_1"`},
		{Args: "jobs dev -o json", Out: `"submissionId": "raysubmit_1"`},
		{Args: "job list dev -o name", Out: "raysubmit_1\n"},
		{Args: "jobs dev raysubmit_1", Out: "command     python a.py\n"},
		{Args: "jobs -c dev raysubmit_1 -o json", Out: `"submission_id": "raysubmit_1"`},
		{Args: "jobs dev raysubmit_1 -o name", Out: "raysubmit_1\n"},
		{Args: "jobs dev nosuch", Code: runstate.CodeSpec, Err: "nosuch"},
		{Args: "jobs a b c", Code: runstate.CodeUsage, Err: "`rayctl jobs` takes a cluster and a job"},
		{Args: "jobs a b -c dev", Code: runstate.CodeUsage, Err: "the cluster is given twice"},
		{Args: "jobs delete -c dev raysubmit_1", Err: "job raysubmit_1 is deleted", Calls: []string{"delete raysubmit_1"}},
		{Before: "jobs delete -c dev raysubmit_1", Args: "jobs delete -c dev raysubmit_1", Code: runstate.CodeSpec, Err: "raysubmit_1", Calls: []string{"delete raysubmit_1"}},
		{Args: "jobs delete dev raysubmit_1", Err: "job raysubmit_1 is deleted", Calls: []string{"delete raysubmit_1"}},
		{Args: "jobs delete dev", Code: runstate.CodeUsage, Err: "`rayctl jobs delete` needs the id of a job"},
		{Args: "jobs delete -c dev", Code: runstate.CodeUsage, Err: "`rayctl jobs delete` needs the id of a job: `rayctl jobs` lists them"},
		{Args: "jobs dev -o xml", Code: runstate.CodeUsage, Err: "it has json, yaml, name, wide"},
		{Args: "jobs old", Code: runstate.CodeSpec, Err: "cluster old has ended (succeeded)"},
		{Args: "__complete jobs delete -c dev ''", Out: "raysubmit_1\tSUCCEEDED python a.py\n:4\n"},
		{Args: "__complete logs dev --node ''", Out: "head-0\there\n:4\n"},
		{Args: "logs dev", Out: "hello\nworld\n", Err: "job raysubmit_1 (the newest)"},
		{Args: "logs dev raysubmit_1 --tail 1", Out: "world\n"},
		{Args: "logs -c dev raysubmit_1 -f", Out: "hello\nworld\n"},
		{Args: "logs raysubmit_1 --launcher slurm", Code: runstate.CodeSpec, Err: "there is no cluster: `rayctl up` or `rayctl run` launches one"},
		{Args: "logs dev nosuch", Code: runstate.CodeSpec, Err: "nosuch"},
		{Args: "logs old", Out: "saved\noutput\n"},
		{Args: "logs old --tail 1", Out: "output\n"},
		{Args: "logs old -f -q", Out: "saved\noutput\n"},
		{Args: "logs old other", Code: runstate.CodeSpec, Err: "cluster old has ended, and the output of job other is not kept: lifetime.keepOutput"},
		{Args: "logs old --attempt 2", Code: runstate.CodeSpec, Err: "old has no attempt 2, and its last one is 1: give 1 to 1, or leave --attempt out"},
		{Args: "logs old --node head-0", Code: runstate.CodeSpec, Err: "its nodes' logs are in its record"},
		{Args: "logs dev --node head-0", Out: "raylet.err\nraylet.out\n"},
		{Args: "logs dev --node head-0 --file raylet.out", Out: "the node's log\n"},
		{Args: "logs dev --node nosuch", Code: runstate.CodeSpec, Err: `the cluster has no node "nosuch": there are head-0`},
		{Args: "logs dev --node head-0 --file ../x", Code: runstate.CodeUsage, Err: `--file: "../x" is not below the node's directory of logs`},
		{Args: "logs dev --file x", Code: runstate.CodeUsage, Err: "give --node NODE, too; `rayctl status NAME` lists the nodes, head-0 is the head"},
		{Args: "logs dev --tail -1", Code: runstate.CodeUsage, Err: "--tail and --attempt cannot be negative"},
		{Args: "logs dev --attempt 1 --node x", Code: runstate.CodeUsage, Err: "--attempt applies to a run's own output, and cannot be used with --node or --address: leave one of them out"},
		{Args: "logs a b c", Code: runstate.CodeUsage, Err: "`rayctl logs` takes a cluster and a job"},
		{Args: "logs nosuch", Code: runstate.CodeSpec, Err: `no cluster named "nosuch": ` + "`rayctl ls` shows yours, and `rayctl logs -c CLUSTER nosuch` shows the output of a job\n"},
		{Args: "stop -c dev raysubmit_1", Err: "job raysubmit_1 is SUCCEEDED"},
		{Args: "stop -c dev raysubmit_1 --no-wait", Err: "local cluster dev"},
		{Args: "stop dev nosuch", Code: runstate.CodeSpec, Err: "there is no job or cluster \"nosuch\": `rayctl jobs -c dev` lists the jobs"},
		{Args: "stop dev raysubmit_1", Err: "job raysubmit_1 is SUCCEEDED"},
		{Args: "stop dev", Code: runstate.CodeSpec, Err: "no job is running: `rayctl jobs -c dev` lists them, `rayctl down` ends a cluster"},
		{Args: "stop old", Code: runstate.CodeSpec, Err: "cluster old has ended (succeeded): `rayctl logs old` shows its output"},
		{Args: "stop -c dev nosuch", Code: runstate.CodeSpec, Err: "nosuch"},
		{Args: "cancel -c dev", Code: runstate.CodeSpec, Err: "no job is running: `rayctl jobs -c dev` lists them, `rayctl down` ends a cluster"},
		{Args: "stop ''", Code: runstate.CodeUsage, Err: "argument 1 of `rayctl stop` is empty"},
		{Args: "stop --address http://127.0.0.1:1:1 x", Code: runstate.CodeUsage, Err: "is not the address of a dashboard"},
	})
	apptest.Run(t, verbs, drivers(5), []apptest.Line{
		{Args: "logs old -f", Code: 5, Out: "saved\noutput\n"},
		{Args: "logs dev raysubmit_1 -f", Code: 5, Out: "hello\nworld\n"},
	})
	apptest.Run(t, verbs, func() launcher.Launcher { return (&apptest.Launcher{Ray: &apptest.Ray{}}).With("dev") }, []apptest.Line{
		{Args: "jobs", Err: "there is no job"},
		{Args: "jobs -o json", Out: "[]\n"},
		{Args: "logs", Code: runstate.CodeSpec, Err: "the cluster had no job yet: `rayctl submit -- COMMAND` runs one, and `rayctl serve logs` shows the logs of applications"},
	})
}

// TestStopAlone: stop without a job takes the only one that runs.
func TestStopAlone(t *testing.T) {
	running := func(ids ...string) func() launcher.Launcher {
		return func() launcher.Launcher {
			ray := &apptest.Ray{}
			ray.Jobs = []map[string]any{ray.Job("raysubmit_ended", "true")}
			for _, id := range ids {
				j := ray.Job(id, "sleep 9")
				j["status"] = "RUNNING"
				ray.Jobs = append(ray.Jobs, j)
			}
			return (&apptest.Launcher{Ray: ray}).With("dev")
		}
	}
	apptest.Run(t, verbs, running("raysubmit_1"), []apptest.Line{
		{Args: "stop", Err: "job raysubmit_1 is STOPPED", Calls: []string{"stop raysubmit_1"}},
		{Args: "stop --no-wait", Err: "local cluster dev", Unsaid: "is STOPPED", Calls: []string{"stop raysubmit_1"}},
	})
	deaf := func() launcher.Launcher {
		l := running("raysubmit_1")().(*apptest.Launcher)
		l.Ray.Killed, l.Ray.Jobs[1]["driver_node_id"] = "raysubmit_1", "n1"
		return l
	}
	apptest.Run(t, verbs, deaf, []apptest.Line{{Args: "stop", Err: "job raysubmit_1 is STOPPED: its driver had not ended when its grace after SIGTERM was over, and Ray killed it", Calls: []string{"stop raysubmit_1"}}})
	apptest.Run(t, verbs, func() launcher.Launcher { return preparing{running("dev-prepare-1", "other")().(*apptest.Launcher)} }, []apptest.Line{
		{Args: "stop dev", Err: "job dev-prepare-1 is STOPPED"},
	})
	apptest.Run(t, verbs, running("raysubmit_1", "raysubmit_2"), []apptest.Line{
		{Args: "stop", Code: runstate.CodeUsage, Err: "More than one job is running: raysubmit_1, raysubmit_2: choose one with `rayctl stop -c dev JOB`"},
	})
}

// pendingJobs are jobs that stay PENDING, as those of Ray do that wait: one for its environment, two for resources, of which another tool submitted one.
func pendingJobs(ids ...string) func() launcher.Launcher {
	return func() launcher.Launcher {
		ray := &apptest.Ray{}
		for _, id := range ids {
			j := ray.Job(id, "true")
			j["status"], j["message"] = "PENDING", "Job has not started yet. It may be waiting for the runtime environment to be set up."
			switch id {
			case "reserves":
				j["metadata"] = map[string]string{dashboardclient.MetadataReserves: "2 CPUs"}
			case "another":
				j["message"] = "Job has not started yet. It may be waiting for resources (CPUs, GPUs, memory, custom resources) to become available."
			}
			ray.Jobs = append(ray.Jobs, j)
		}
		return (&apptest.Launcher{Ray: ray}).With("dev")
	}
}

// TestStopUnstarted: Ray ends no job before it starts it. stop says so soon, also with --no-wait, with what the job waits for and what ends it; then it waits for
// that, and not for ever. An interrupt ends only the waiting.
func TestStopUnstarted(t *testing.T) {
	told, within := tellAfter, startsWithin
	t.Cleanup(func() { tellAfter, startsWithin = told, within })
	tellAfter, startsWithin = time.Millisecond, time.Millisecond
	const (
		environment = "job raysubmit_1 is PENDING: it waits for its environment, with its packages and files. Ray ends the job when it starts the job; before that `rayctl down dev` ends the job with its cluster\n"
		resources   = "job reserves is PENDING: it waits for a node with 2 CPUs free, or its environment. Ray ends the job when it starts the job"
		another     = "job another is PENDING: it waits for a node with what it reserves free, or its environment. Ray ends the job when it starts the job"
	)
	apptest.Run(t, verbs, pendingJobs("raysubmit_1"), []apptest.Line{
		{Args: "stop --no-wait", Err: environment, Calls: []string{"stop raysubmit_1"}},
		{Args: "stop", Code: runstate.CodeUnreachable, Err: environment + "rayctl: job raysubmit_1 is still PENDING and waits for its environment, with its packages and files: Ray ends the job when it starts the job: `rayctl down dev` ends the job with its cluster", Calls: []string{"stop raysubmit_1"}},
		{Args: "logs -f dev", Code: runstate.CodeInterrupted, InterruptAt: "PENDING: ", Err: "stopped watching job raysubmit_1, which is PENDING and waits for: its environment, with its packages and files. `rayctl logs -c dev raysubmit_1 -f` shows its output once it runs"},
		{Args: "jobs dev raysubmit_1", Out: "waits for   its environment, with its packages and files\n"},
	})
	apptest.Run(t, verbs, pendingJobs("reserves", "another"), []apptest.Line{
		{Args: "stop dev reserves another --no-wait", Err: resources, Calls: []string{"stop reserves", "stop another"}},
		{Args: "stop dev reserves another --no-wait", Err: another, Calls: []string{"stop reserves", "stop another"}},
		{Args: "stop dev reserves another", Code: runstate.CodeUnreachable, Err: "job reserves is still PENDING and waits for a node with 2 CPUs free, or its environment", Calls: []string{"stop reserves", "stop another"}},
	})
	apptest.Run(t, verbs, func() launcher.Launcher { // what another user of the cluster has submitted
		l := pendingJobs("raysubmit_1")().(*apptest.Launcher)
		l.Ray.Jobs[0]["metadata"] = map[string]string{dashboardclient.MetadataReserves: "2\x1b[31m CPUs\nrm -rf"}
		return l
	}, []apptest.Line{
		{Args: "stop --no-wait", Err: "a node with 2", Unsaid: "\x1b", Calls: []string{"stop raysubmit_1"}},
		{Args: "stop --no-wait", Err: "rm -rf free, or its environment", Unsaid: "\nrm", Calls: []string{"stop raysubmit_1"}},
	})
	startsWithin = within
	apptest.Run(t, verbs, pendingJobs("reserves"), []apptest.Line{
		{Args: "stop", Code: runstate.CodeInterrupted, InterruptAt: "is PENDING", Err: "stopped waiting: Ray has the request to stop job reserves, and `rayctl jobs -c dev reserves` shows when it has ended\n", Calls: []string{"stop reserves"}},
	})
}

// TestReserves: what a job reserves goes with it, for those who ask later what it waits for.
func TestReserves(t *testing.T) {
	apptest.Run(t, verbs, drivers(0), []apptest.Line{
		{Args: "submit dev -d -o json --entrypoint-num-cpus 2 --entrypoint-num-gpus 1 -- true", Out: `"rayctl.reserves": "2 CPUs, 1 GPU"`, JSON: true},
	})
}

// preparing is a launcher whose run has no driver yet: job.prepare runs.
type preparing struct{ *apptest.Launcher }

func (p preparing) Watch(ctx context.Context, id launcher.ID) (<-chan launcher.Status, error) {
	in, err := p.Launcher.Watch(ctx, id)
	if err != nil {
		return nil, err
	}
	out := make(chan launcher.Status)
	go func() {
		defer close(out)
		for s := range in {
			s.Job = &runstate.Job{SubmissionID: "dev-1", State: runstate.JobWaiting, Prepare: &runstate.Prepare{SubmissionID: "dev-prepare-1", State: runstate.JobRunning}}
			select {
			case out <- s:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}
