package slurm

import (
	"context"
	"errors"
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

// inside reports whether the run's job is somebody else's allocation, which has steps of the run and must not be touched.
func (c *cluster) inside() bool { return c.run.Record != nil && slurmspec.InCurrent(c.run.Record.Spec) }

// cancel ends what the run has of Slurm: its job, or its steps in somebody else's. onlyWaiting: unless it has begun.
func (c *cluster) cancel(ctx context.Context, job int, onlyWaiting bool) error {
	if !c.inside() {
		return c.l.site.Cancel(ctx, job, onlyWaiting)
	}
	if onlyWaiting { // steps do not wait
		return nil
	}
	steps, err := c.steps(ctx)
	if err != nil {
		return err
	}
	return c.l.site.CancelSteps(ctx, steps)
}

// steps are the ids of the run's steps that there are.
func (c *cluster) steps(ctx context.Context) (ids []string, err error) {
	all, err := c.l.site.Steps(ctx)
	for _, s := range all {
		if script.IsStepOf(s.Name, c.run.Record.Nonce) {
			ids = append(ids, s.ID)
		}
	}
	return ids, err
}

// askInside is Ask for a run inside somebody else's allocation: it is over when its steps are, or the allocation. A controller that has just been restarted may
// not know all steps: that there are none is no certainty.
func (c *cluster) askInside(ctx context.Context, age time.Duration) (fate, controller.Job, error) {
	jobs, err := c.l.site.Queue.Ask(ctx, min(age, max(0, time.Since(c.run.Record.Created))))
	if err != nil {
		return fateUnknown, controller.Job{}, err
	}
	var j controller.Job
	for _, other := range jobs {
		if other.ID == c.run.JobID {
			j = other
		}
	}
	switch {
	case j.ID == 0 || j.State == controller.StatePending: // queued again, without our steps
		return fateUnknown, controller.Job{}, nil
	case j.Ended():
		c.released = j.Released()
		return fateGone, j, nil
	}
	if age == 0 || time.Since(c.stepsAt) > age || c.run.Result != nil {
		left, err := c.steps(ctx)
		if errors.Is(err, controller.ErrNoSteps) {
			left, err = c.presumed(), nil
		}
		if err != nil {
			return fateUnknown, j, err
		}
		c.stepsLeft, c.stepsAt = len(left), time.Now()
	}
	if c.stepsLeft == 0 {
		return fateUnknown, j, nil
	}
	return fateAlive, j, nil
}

// presumed are the steps if Slurm does not list them: those of a run without a result.
func (c *cluster) presumed() []string {
	if c.run.Result != nil {
		return nil
	}
	return []string{"?"}
}

// beginTime is how long Slurm may take to start a step on a node that the job has.
const beginTime = 2 * time.Minute

// stepEvery is how often the step's first file is looked for.
const stepEvery = 100 * time.Millisecond

// beginInside runs the batch script as a step of somebody else's allocation, and returns when it has begun. Its srun is in a session of its own, so that neither the end of
// this command nor of its terminal ends it; Slurm ends the step with the allocation. Without its srun the step goes on: it writes to a file.
func (c *cluster) beginInside(ctx context.Context, around site.Around, keep []string) error {
	out := c.run.Path(script.OutFile)
	argv := append([]string{"srun", "--quiet", "--jobid=" + strconv.Itoa(around.Job)}, controller.OfCluster(slurmspec.Of(c.run.Record.Spec).Cluster)...)
	argv = append(argv, "--overlap", "--nodelist="+around.First, "--nodes=1", "--ntasks=1", "--mpi=none", "--cpu-bind=none", "--export=ALL", "--input=none", "--kill-on-bad-exit=0",
		"--job-name="+script.KeeperStep(c.run.Record.Nonce), "--chdir="+c.run.Dir, "--output="+strings.ReplaceAll(out, "%", "%%"), "--open-mode=append", "bash", c.run.Path(script.File))
	argv = append([]string{"sh", "-c", `exec "$@" </dev/null >>"$0" 2>&1`, out}, remote.CleanWith(keep, argv...)...)
	srun := c.l.site.Runner.Command(context.WithoutCancel(ctx), argv...)
	srun.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := srun.Start(); err != nil {
		return launcher.Fail(runstate.CodeUnreachable, err, "put Slurm's commands into PATH", "srun cannot be started: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srun.Wait() }()
	for until := time.Now().Add(beginTime); time.Now().Before(until); sleep.For(ctx, stepEvery) {
		if err := c.run.Read(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		if c.run.JobID != 0 { // the step has written it
			return nil
		}
		select {
		case err := <-ended:
			if c.run.Read(ctx) == nil && c.run.JobID != 0 {
				return nil
			}
			return launcher.Fail(runstate.CodeStartFailed, err, "`srun --overlap true` in it tests whether its nodes accept steps", "the keeper's step in job %d could not begin: %s (all of its output: %s)", around.Job, c.scriptOutput(ctx), out)
		default:
		}
	}
	_ = srun.Process.Signal(syscall.SIGTERM)
	return launcher.Fail(runstate.CodeStartFailed, nil, "`squeue --steps` shows what its nodes do", "the keeper's step in job %d did not begin within %s", around.Job, beginTime)
}
