package batchjob

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/site"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// beginTime is how long Slurm may take to start a step on a node that the job has.
const beginTime = 2 * time.Minute

// lookEvery is how often it is looked for the first file of the step's.
const lookEvery = 100 * time.Millisecond

// Begin runs the batch script as a step of somebody else's allocation, and returns when it has begun. Its srun is in a session of its own, so that neither the end of
// this command nor of its terminal ends it; Slurm ends the step with the allocation. Without its srun the step goes on: it writes to a file.
func (b *Job) Begin(ctx context.Context, around site.Around, keep []string) error {
	out := b.Path(script.OutFile)
	argv := append([]string{"srun", "--quiet", "--jobid=" + strconv.Itoa(around.Job)}, controller.OfCluster(slurmspec.Of(b.Record.Spec).Cluster)...)
	argv = append(argv, "--overlap", "--nodelist="+around.First, "--nodes=1", "--ntasks=1", "--mpi=none", "--cpu-bind=none", "--export=ALL", "--input=none", "--kill-on-bad-exit=0",
		"--job-name="+script.KeeperStep(b.Record.Nonce), "--chdir="+b.Dir, "--output="+strings.ReplaceAll(out, "%", "%%"), "--open-mode=append", "bash", b.Path(script.File))
	argv = append([]string{"sh", "-c", `exec "$@" </dev/null >>"$0" 2>&1`, out}, remote.CleanWith(keep, argv...)...)
	srun := b.Site.Runner.Command(context.WithoutCancel(ctx), argv...)
	srun.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := srun.Start(); err != nil {
		return launcher.Fail(runstate.CodeUnreachable, err, "put Slurm's commands into PATH", "srun cannot be started: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srun.Wait() }()
	for until := time.Now().Add(beginTime); time.Now().Before(until); sleep.For(ctx, lookEvery) {
		if err := b.Look(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		if b.JobID != 0 { // the step has written it
			return nil
		}
		select {
		case err := <-ended:
			if b.Look(ctx) == nil && b.JobID != 0 {
				return nil
			}
			return launcher.Fail(runstate.CodeStartFailed, err, "`srun --overlap true` in it tests whether its nodes accept steps", "the keeper's step in job %d could not begin: %s (all of its output: %s)", around.Job, b.LastWords(ctx), out)
		default:
		}
	}
	_ = srun.Process.Signal(syscall.SIGTERM)
	return launcher.Fail(runstate.CodeStartFailed, nil, "`squeue --steps` shows what its nodes do", "the keeper's step in job %d did not begin within %s", around.Job, beginTime)
}
