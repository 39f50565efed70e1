//go:build linux

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// inAllocation: clusters are steps of an allocation that stays its owner's, one after the other, whatever ends them.
func (s *site) inAllocation(t *testing.T, python, image string) {
	a := s.salloc(python)
	t.Run("Refused", a.refusesHere)
	t.Run("TwoNodes", func(t *testing.T) { a.twoNodes(t, image) })
	t.Run("ClientKilled", a.clientKilled)
	t.Run("Script", a.limitInScript)
	t.Run("NewJob", a.newJob)
	t.Run("Interrupted", a.interruptedHere)
	t.Run("Down", a.downHere)
	t.Run("KeeperKilled", a.keeperKilled)
	t.Run("AllocationEnds", a.allocationEnds)
}

// refusesHere: what an allocation cannot give is refused before anything starts; and a job of its own, with a note, is what a cluster gets without the key.
func (a *allocation) refusesHere(t *testing.T) {
	for args, want := range map[string]string{
		"--workers 5":                           "needs 5 nodes of 1 CPUs, but job " + a.id + ", in which this command runs, has 2 nodes, with room for 4",
		"--set slurm.partition=gpu":             "slurm.partition",
		"--set slurm.extraArgs='[--nice=1]'":    "slurm.extraArgs",
		"--set job.restarts.nodeFailure=1":      "job.restarts",
		"--slurm-host 'nobody@elsewhere'":       "slurm.job",
		"--set workers.worker.slurm.qos='$(x)'": "workers.worker.slurm.qos",
	} {
		out, code := a.sh(a.current("run", "--name refused --workers 1 "+args+" -- echo never"))
		wrong := 64 // the command line, of which these are
		if strings.HasPrefix(args, "--workers") {
			wrong = 65
		}
		if code != wrong || !strings.Contains(out, want) {
			t.Errorf("%s: code %d, %s", args, code, out)
		}
	}
	if out, code := a.sh("export RAYCTL_SLURM_PARTITION='gpu; $(id)'; " + a.current("run", "--name refused --workers 1 -- echo never")); code != 65 || !strings.Contains(out, "slurm.partition: with slurm.job: current") {
		t.Errorf("a variable: code %d, %s", code, out)
	}
	if _, err := os.Stat(filepath.Join(a.Home(""), ".rayctl", "runs", "refused")); !os.IsNotExist(err) {
		t.Errorf("a refused launch has left its directory: %v", err)
	}
	out, code := a.sh(home.rayctl + " validate --launcher slurm -- echo")
	if code != 0 || !strings.Contains(out, "this is inside job "+a.id+", and the cluster gets a job of its own; slurm.job: current") {
		t.Errorf("code %d, %s", code, out)
	}
	unlike := a.Command(t.Context(), "", "salloc", "--quiet", "--partition=gpu", "--mem=1G", ":", "--partition=cpu", "--mem=1G",
		"sh", "-c", a.current("run", "--name refused --workers 1 -- echo never"))
	unlike.Env = append(unlike.Env, "XDG_RUNTIME_DIR="+a.Home(""))
	if out, _ := unlike.CombinedOutput(); unlike.ProcessState.ExitCode() != 65 || !strings.Contains(string(out), "is heterogeneous, and slurm.job: current cannot use such a job") {
		t.Errorf("in a heterogeneous allocation: code %d, %s", unlike.ProcessState.ExitCode(), out)
	}
	c := a.Command(t.Context(), "", home.rayctl, "run", "--launcher", "slurm", "--slurm-job", "current", "--", "true")
	c.Env = append(c.Env, "XDG_RUNTIME_DIR="+a.Home(""))
	text, err := c.CombinedOutput()
	if c.ProcessState.ExitCode() != 65 || !strings.Contains(string(text), "this command does not run in an allocation") {
		t.Errorf("outside: %v, %s", err, text)
	}
	out, code = a.sh(a.current("doctor", "--workers 1"))
	if code != 0 || !strings.Contains(out, "job "+a.id+", in which this command runs, has room for it") || !strings.Contains(out, "Ray on node1") {
		t.Errorf("doctor: code %d, %s", code, out)
	}
	if out, code = a.sh(a.current("doctor", "--workers 1 --set setup='exit 3'")); code == 0 || !strings.Contains(out, "setup exited with code 3") {
		t.Errorf("doctor of a setup that fails: code %d, %s", code, out)
	}
}

// twoNodes: each node is a step, in a container, and has one of the two GPUs that the allocation has there.
func (a *allocation) twoNodes(t *testing.T, image string) {
	a.t = t
	const look = `import os, ray
ray.init(log_to_driver=False)
@ray.remote(num_cpus=1, num_gpus=1, scheduling_strategy="SPREAD")
def has():
    return " ".join([ray.util.get_node_ip_address(), os.environ["CUDA_VISIBLE_DEVICES"], os.environ["CONTAINER_PROGRAM"], os.environ["CONTAINER_OPTIONS"], os.environ["APPTAINER_CONTAINER"]])
print(*sorted(n["NodeManagerHostname"] for n in ray.nodes()), ray.cluster_resources()["CPU"], ray.cluster_resources()["GPU"])
print(*sorted(ray.get([has.remote(), has.remote()])), sep="\n")`
	program := filepath.Join(a.dir, "look.py")
	if err := os.WriteFile(program, []byte(look), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := a.sh(a.current("run", "--name two --workers 2 --gpus-per-worker h100:1 --image "+image+" --set slurm.containerRuntime=apptainer --set 'mounts=[{mountPath: "+a.dir+", source: {slurm: "+a.dir+"}}]' -- python "+program))
	each := `\S+ [01] apptainer --nv ` + regexp.QuoteMeta(image) + `\n`
	if code != 0 || !regexp.MustCompile(`node1 node2 2.0 2.0\n`+each+each).MatchString(out) {
		t.Errorf("code %d, %s\n%s", code, out, a.story())
	}
	a.alone("two")
}

// clientKilled: the steps outlive their client, and are reached from inside and outside.
func (a *allocation) clientKilled(t *testing.T) {
	a.t = t
	gate := filepath.Join(a.dir, "gate")
	a.sh("(" + a.current("run", "--name killed --workers 1 -- sh -c 'echo begun; until [ -e "+gate+" ]; do sleep 0.2; done; echo over; exit 7'") + ") >" + a.dir + "/killed.out 2>&1 & echo $! >" + a.dir + "/killed.pid")
	a.printed("killed", "begun")
	if out, code := a.sh("kill -9 $(cat " + a.dir + "/killed.pid)"); code != 0 {
		t.Fatal(out)
	}
	follows := a.begin(home.rayctl + " logs -f killed --launcher slurm")
	contains(t, "status", a.rayctl("status", "killed", "--launcher", "slurm").out, "in job "+a.id)
	contains(t, "ls", a.rayctl("ls", "--launcher", "slurm").out, "killed")
	contains(t, "exec", a.rayctl("exec", "killed", "--launcher", "slurm", "--", "sh", "-c", "hostname").out, "node1")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := a.end(follows); code != 7 || !strings.Contains(out, "begun\nover") {
		t.Errorf("logs -f: code %d, %s\n%s", code, out, a.story())
	}
	a.alone("killed")
}

// limitInScript: an sbatch script goes on in its allocation when the cluster there has ended. The limit counts the start of Ray, too, which
// takes long on a busy machine.
func (a *allocation) limitInScript(t *testing.T) {
	a.t = t
	file := filepath.Join(a.dir, "script")
	script := "export XDG_RUNTIME_DIR=" + a.Home("") + "\n(" + a.current("run", "--name limited --workers 1 --set lifetime.max=1m -- sh -c 'squeue --me --noheader --format=\"name %j\"; exec sleep 600'") + ")\n" +
		`echo "code $? in job $SLURM_JOB_ID, which is $(squeue --noheader --jobs=$SLURM_JOB_ID --format=%T)"`
	job, err := a.Submit(t.Context(), script, append(twoNodes[1:], "--error="+file, "--output="+file)...)
	if err != nil {
		t.Fatal(err)
	}
	a.AwaitJob(t, job, "COMPLETED", "FAILED", "CANCELLED")
	text, err := os.ReadFile(file)
	if out := string(text); err != nil || !strings.Contains(out, "code 124 in job "+job+", which is RUNNING") || !strings.Contains(out, "lifetime.max") || !strings.Contains(out, "name sbatch\n") || strings.Contains(out, "name limited") {
		t.Errorf("%v: %s\n%s", err, out, a.story())
	}
	a.alone("lifetime.max")
}

// newJob: without the key a cluster is a job of its own, also in an allocation, whose variables it does not have. Of its own
// job the driver has the number.
func (a *allocation) newJob(t *testing.T) {
	a.t = t
	line := strings.Replace(a.current("run", `--name apart --workers 1 -- sh -c 'env; echo; squeue --me --noheader --format="%j is %i"'`), " --slurm-job current ", " ", 1)
	out, code := a.sh("export SLURM_HINT=nosuch SBATCH_PARTITION=nosuch; " + line)
	if code != 0 || !strings.Contains(out, "this is inside job "+a.id+", and the cluster gets a job of its own") {
		t.Errorf("code %d, %s\n%s", code, out, a.story())
	}
	own := regexp.MustCompile(`(?m)^apart is (\d+)$`).FindStringSubmatch(out)
	if own == nil || own[1] == a.id {
		t.Fatalf("its job is %q, and salloc's %s: %s", own, a.id, out)
	}
	has := regexp.MustCompile(`(?m)^(SLURM|SBATCH|SRUN|PMI)\w*=.*`).FindAllString(out, -1)
	if slices.Sort(has); !slices.Equal(has, []string{"SLURM_CONF=" + a.Conf(), "SLURM_JOB_ID=" + own[1]}) {
		t.Errorf("the driver has %q", has)
	}
	a.alone("apart")
}

func (a *allocation) interruptedHere(t *testing.T) {
	a.t = t
	pid := filepath.Join(a.dir, "interrupted.pid")
	run := a.begin("sh -c 'echo $PPID' >" + pid + "; " + a.current("run", "--name interrupted --workers 1 -- sh -c 'echo begun; exec sleep 600'"))
	a.printed("interrupted", "begun")
	kill := a.Command(t.Context(), "", "sh", "-c", "kill -INT $(cat "+pid+")")
	if out, err := kill.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, code := a.end(run); code != 130 {
		t.Errorf("code %d, %s\n%s", code, out, a.story())
	}
	a.alone("Ctrl-C")
}

func (a *allocation) downHere(t *testing.T) {
	a.t = t
	if out, code := a.sh(a.current("up", "stays --workers 1")); code != 0 {
		t.Fatalf("code %d, %s\n%s", code, out, a.story())
	}
	if out, code := a.sh(home.rayctl + " exec stays --launcher slurm -- hostname"); code != 0 || !strings.HasPrefix(out, "node1\n") {
		t.Errorf("exec: code %d, %s", code, out)
	}
	if out, code := a.sh(home.rayctl + " down stays --launcher slurm"); code != 0 {
		t.Errorf("down: code %d, %s", code, out)
	}
	a.alone("down")
}

// keeperKilled: what follows ends our steps, not the user's step 0.
func (a *allocation) keeperKilled(t *testing.T) {
	a.t = t
	run := a.begin(a.current("run", "--name orphan --workers 1 -- sh -c 'echo begun; exec sleep 600'"))
	a.printed("orphan", "begun")
	if _, err := a.Exec(t.Context(), 1, "kill -9 $(pgrep -f 'keeper.*slurm-star[t]')"); err != nil {
		t.Error(err)
	}
	if out, code := a.end(run); code != 76 || !strings.Contains(out, "the keeper was killed") {
		t.Errorf("code %d, %s\n%s", code, out, a.story())
	}
	a.alone("orphan")
}

// allocationEnds: with the allocation its clusters end.
func (a *allocation) allocationEnds(t *testing.T) {
	a.t = t
	if out, code := a.sh(a.current("up", "ends --workers 1")); code != 0 {
		t.Fatalf("code %d, %s\n%s", code, out, a.story())
	}
	a.lines.Close()
	select {
	case <-a.ended:
	case <-time.After(exampleLimit):
		t.Fatal("salloc does not end")
	}
	var last string
	a.Await(t, "the cluster's end", func(context.Context) (bool, error) {
		last = a.rayctl("status", "ends", "--launcher", "slurm", "-o", "json").out
		return strings.Contains(last, `"phase": "Gone"`) || strings.Contains(last, `"phase":"Gone"`), nil
	})
	contains(t, "status", last, `interrupted`)
	a.rayctl("down", "ends", "--launcher", "slurm")
}
