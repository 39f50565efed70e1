//go:build linux

package slurm_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// nodeFailsForGood: a run that preemption alone may restart ends with its node where nothing preempts, even if no client watches: it is not queued again only
// to be ended then.
func (b *bed) nodeFailsForGood(t *testing.T) {
	l := b.launcher()
	id, err := l.Launch(t.Context(), b.inPartition("for-good", "main", "exec sleep 600", 1), launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	st := watchUntil(t, l, id, jobRuns)
	job := strings.TrimPrefix(st.Where, "job ")
	b.Await(t, "the job to run once", func(ctx context.Context) (bool, error) {
		out, err := b.Slurm(ctx, "scontrol", "show", "job", job)
		return strings.Contains(out, "Requeue=0 "), err
	})
	if out, err := b.Slurm(t.Context(), "scontrol", "requeue", job); err == nil {
		t.Errorf("scontrol requeue is not refused: %s", out)
	}
	defer b.powerOffHost(t, st.Nodes[0].Host)()
	b.AwaitJob(t, job, "NODE_FAIL")
	r, err := l.Result(t.Context(), id)
	if err != nil || r.Exit.Cause != runstate.CauseLost || r.Exit.Code != runstate.CodeLost {
		t.Errorf("result %+v, %v", r, err)
	}
	if over := watchUntil(t, l, id, isGone); over.Attempt != 1 {
		t.Errorf("status %+v", over)
	}
	b.down(t, l, id)
	if err := l.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// insideJob: who calls rayctl in a job of another kind, with what that job and he himself have set for Slurm's commands, gets a job of its own.
func (b *bed) insideJob(t *testing.T) {
	file := filepath.Join(b.Cluster.Dir, "shared", "outer")
	outer, err := b.Submit(t.Context(), "env > "+file+".part; mv "+file+".part "+file+"; exec sleep 600", "--ntasks=1", "--mem=100", "--partition=short", "--time=2")
	if err != nil {
		t.Fatal(err)
	}
	b.awaitFile(t, file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	user := *b
	user.Env = append(slices.Clone(b.Env), "SBATCH_PARTITION=nosuch", "SBATCH_JOB_NAME=outer", "SLURM_CLUSTERS=nosuch", "SLURM_HINT=nosuch", "SRUN_CPUS_PER_TASK=99")
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "SLURM") && !strings.HasPrefix(line, "SLURM_CONF=") {
			user.Env = append(user.Env, strings.TrimSuffix(line, "\n"))
		}
	}
	l := slurm.New(slurm.Config{Runner: user.beside, Dir: b.Dir()})
	defer l.Close()
	g := b.gate(t)
	s := user.named("inner", "echo inner; "+g.wait())
	if bad := failing(l.Check(t.Context(), s)); len(bad) > 0 {
		t.Errorf("doctor finds %q: %+v", bad, l.Check(t.Context(), s))
	}
	r := user.beginBy(t, l, s, launcher.Payload{})
	st := r.until("running", jobRuns)
	if st.Where == "job "+outer {
		t.Errorf("it runs in the job from which it was called")
	}
	if out, err := b.Slurm(t.Context(), "squeue", "--noheader", "--name=inner", "--format=%P %C"); err != nil || out != "main 1" {
		t.Errorf("partition and CPUs are %q, %v", out, err)
	}
	if via, err := answers(t.Context(), l, r.id, launcher.Keeper); err != nil {
		t.Errorf("by %q, %v", via, err)
	}
	g.open()
	r.ended(0, "succeeded", "")
	r.forgotten()
	if _, err := b.Slurm(t.Context(), "scancel", outer); err != nil {
		t.Error(err)
	}
}

// insideHeterogeneous: an allocation whose parts are unlike is not used, which a launch and doctor report.
func (b *bed) insideHeterogeneous(t *testing.T) {
	outer, err := b.Submit(t.Context(), "#SBATCH --ntasks=1 --mem=100\n#SBATCH hetjob\n#SBATCH --ntasks=2 --mem=100\nexec sleep 600")
	if err != nil {
		t.Fatal(err)
	}
	b.Await(t, "job "+outer+" to run", func(ctx context.Context) (bool, error) {
		out, err := b.Slurm(ctx, "squeue", "--noheader", "--jobs="+outer, "--format=%T")
		return strings.Fields(out + " -")[0] == "RUNNING", err
	})
	l := slurm.New(slurm.Config{Runner: b.beside, Dir: b.Dir(), Getenv: func(name string) string { return map[string]string{slurmspec.Around: outer}[name] }})
	defer l.Close()
	s := b.named("unlike", "echo never")
	s.Sections = slurmspec.In(&slurmspec.Section{Job: slurmspec.CurrentJob})
	const want = "is heterogeneous, and slurm.job: current cannot use such a job"
	if _, err := l.Launch(t.Context(), s, launcher.Payload{}); launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), want) {
		t.Errorf("the launch: %v (code %d)", err, launcher.ExitCode(err))
	}
	if checks := l.Check(t.Context(), s); !slices.Contains(failing(checks), "request") || !strings.Contains(checks[len(checks)-1].Detail, want) {
		t.Errorf("doctor: %+v", checks)
	}
	b.nothingLeft(t, "unlike")
	if _, err := b.Slurm(t.Context(), "scancel", outer); err != nil {
		t.Error(err)
	}
}
