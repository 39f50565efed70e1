package onemachine

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sharedfile"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/trust"
	"github.com/rayctl/rayctl/local/localspec"
	"github.com/rayctl/rayctl/local/rayenv"
)

// Launch creates the cluster and commits it, see launcher.Launcher. The lock of the name is held from the first look to the
// commit: whoever launches the same name meanwhile waits, and finds a committed cluster or none.
func (l *Launcher) Launch(ctx context.Context, s *spec.ClusterSpec, p launcher.Payload) (launcher.ID, error) {
	s = spec.For(s, l.Name())
	if err := orders.Refuse(s, p); err != nil {
		return "", err
	}
	launcher.ReconcileBeside(ctx, l, launcher.ID(s.Name), l.log)
	lock, err := l.lock(ctx, s.Name)
	if err != nil {
		return "", err
	}
	defer lock.Release()
	c := l.cluster(s.Name)
	if exists, err := l.existing(ctx, c.run.ID(), s); exists || err != nil {
		return c.run.ID(), err
	}
	if err := l.on.Require(ctx); err != nil {
		return "", err
	}
	began := time.Now().UTC()
	plan, err := l.plan(ctx, c, s, p)
	if err != nil {
		return "", err
	}
	if err := c.create(ctx, plan, p, began); err != nil {
		return "", err
	}
	return c.run.ID(), nil
}

// Validate finds what Launch refuses, see launcher.Launcher.
func (l *Launcher) Validate(ctx context.Context, s *spec.ClusterSpec, p launcher.Payload) error {
	s = spec.For(s, l.Name())
	if err := orders.Refuse(s, p); err != nil {
		return err
	}
	if err := l.on.Require(ctx); err != nil {
		return err
	}
	if err := l.possible(s, p); err != nil {
		return err
	}
	if p.DryRun { // a launch finds it when it writes
		if err := room(l.clusters); err != nil {
			return writeFailed(l.clusters, err)
		}
	}
	o := l.environment(s, p.Progress)
	if err := l.requireRoom(o); err != nil {
		return err
	}
	if p.DryRun && !rayenv.Exists(o) {
		if p.Warn != nil {
			p.Warn("the launch would first make a Python environment with " + rayenv.Wanted(o) + ", and keep it")
		}
		return nil
	}
	_, err := rayenv.Ensure(ctx, o)
	return err
}

// possible refuses what this machine cannot give.
func (l *Launcher) possible(s *spec.ClusterSpec, p launcher.Payload) error {
	if err := fits(s); err != nil {
		return err
	}
	if err := requireBash(s); err != nil {
		return err
	}
	if problems := localspec.Here(s); len(problems) > 0 {
		first := problems[0]
		return launcher.Fail(runstate.CodeSpec, problems, first.Hint, "%s: %s", first.Path, first.Msg)
	}
	if p.DryRun {
		return nil
	}
	return linkMounts(s.Mounts, notes(p.Progress))
}

// requireBash refuses a cluster that could run nothing: Ray starts each worker and driver through bash, and would wait for the first for ever.
func requireBash(s *spec.ClusterSpec) error {
	const cause = "Ray starts each driver and worker through bash, and %s has none"
	path, set := s.Job.Env["PATH"]
	if strings.Contains(path, "$") {
		return nil // which the node knows
	}
	if set && !hasBash(path) {
		return launcher.Fail(runstate.CodeConfig, exec.ErrNotFound, "write PATH: DIR:$PATH", cause, "the PATH of job.env")
	}
	if _, other := s.Env["PATH"]; !set && !other && !hasBash(os.Getenv("PATH")) {
		return launcher.Fail(runstate.CodeConfig, exec.ErrNotFound, "install bash, or add its directory to PATH", cause, "PATH")
	}
	return nil
}

func hasBash(path string) bool {
	for _, dir := range filepath.SplitList(path) {
		if _, err := exec.LookPath(filepath.Join(dir, "bash")); err == nil && filepath.IsAbs(dir) {
			return true
		}
	}
	return false
}

// Notes are about what this machine does not have, see launcher.Launcher.
func (l *Launcher) Notes(s *spec.ClusterSpec) []string {
	return sizeNotes(spec.For(s, l.Name()), thisMachine())
}

// lock takes the lock of a cluster's name.
func (l *Launcher) lock(ctx context.Context, name string) (*sharedfile.Lock, error) {
	if err := trust.MakeDir(filepath.Dir(l.locks)); err != nil {
		return nil, notOurs(filepath.Dir(l.locks), err)
	}
	lock, err := sharedfile.Acquire(ctx, l.lockPath(name))
	switch {
	case ctx.Err() != nil:
		return nil, interrupted(ctx, name)
	case err != nil:
		return nil, writeFailed(l.locks, err)
	}
	return lock, nil
}

func interrupted(ctx context.Context, name string) error {
	return launcher.Fail(runstate.CodeInterrupted, ctx.Err(), "", "interrupted while working on %s", name)
}

// existing compares the wish with what is there under the name. The caller holds the lock, so what is not committed is left
// over by a client that died: it is removed.
func (l *Launcher) existing(ctx context.Context, id launcher.ID, s *spec.ClusterSpec) (bool, error) {
	c, err := l.open(id)
	if errors.Is(err, launcher.ErrNotFound) {
		return false, l.cluster(string(id)).run.Remove() // without a record it can only be the beginning of one
	}
	if err != nil {
		return false, err
	}
	how, st, err := c.run.Life()
	if err != nil {
		return false, err
	}
	if how == elsewhere {
		return false, c.notHere()
	}
	if !c.run.Files.Committed() {
		return false, c.abandon(ctx)
	}
	if how == orphaned {
		if err := c.writeResult(ctx, lost()); err != nil {
			return false, err
		}
		how = ended
	}
	if how == ended {
		return false, c.refuseKept()
	}
	if err := launcher.SameSpec(c.run.ID(), st, c.run.Record.Spec, s); err != nil {
		return false, err
	}
	return true, nil
}

// refuseKept refuses a name whose record is kept.
func (c *cluster) refuseKept() error {
	return launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, "choose another name, or replace it with --recreate",
		"a cluster named %s has ended, and its record is kept until %s", c.run.Name, launcher.Stamp(c.run.KeptUntil()))
}

// plan gathers what the orders follow from, and makes the Ray environment if it must.
func (l *Launcher) plan(ctx context.Context, c *cluster, s *spec.ClusterSpec, p launcher.Payload) (nodePlan, error) {
	root, err := tempRoot(s)
	if err != nil {
		return nodePlan{}, err
	}
	if err := l.possible(s, p); err != nil {
		return nodePlan{}, err
	}
	o := l.environment(s, p.Progress)
	if err := l.requireRoom(o); err != nil {
		return nodePlan{}, err
	}
	env, err := rayenv.Ensure(ctx, o)
	if err != nil {
		return nodePlan{}, err
	}
	return nodePlan{Spec: s, Env: env, Machine: thisMachine(), Launcher: l.Name(), Start: l.on.Start(s.Name), OutputDir: c.run.Path(outputName), TempRoot: root, Disconnect: p.EndOnDisconnect}, nil
}

func (l *Launcher) environment(s *spec.ClusterSpec, progress func(launcher.Progress)) rayenv.Options {
	o := rayenv.Options{Python: s.Ray.Python, Version: s.Ray.Version, Packages: localspec.Packages(s), NoUv: localspec.NoUv(s), NoLock: localspec.NoLock(s), CacheDir: l.cacheDir}
	if progress != nil {
		o.Progress = notes(progress)
		o.Detail = func(text string) { progress(launcher.Progress{Text: text, Detail: true}) }
	}
	return o
}

func notes(progress func(launcher.Progress)) func(string) {
	return func(text string) {
		if progress != nil {
			progress(launcher.Progress{Text: text})
		}
	}
}

// worthTelling is how long the preparation of a launch must take to be a part of its time: it does when it makes an environment.
const worthTelling = time.Second

// create makes the run directory, starts the keeper, packs while Ray starts, and commits. Whatever fails, nothing stays.
func (c *cluster) create(ctx context.Context, plan nodePlan, p launcher.Payload, began time.Time) error {
	r := record{
		Name: c.run.Name, Owner: c.l.owner, Host: c.l.host, Mark: rand.Text(), Created: time.Now().UTC(), Labels: plan.Spec.Labels,
		Command: p.Command, EnvDir: plan.Env.Dir, Python: plan.Env.Python, Spec: plan.Spec,
	}
	if r.Created.Sub(began) >= worthTelling {
		r.Began = &began
	}
	if err := c.run.Write(r, plan.Orders(), p.Secrets); err != nil {
		return errors.Join(writeFailed(c.run.Dir, err), c.run.Remove())
	}
	k, err := c.startKeeper(plan)
	if err != nil {
		return errors.Join(err, c.run.Remove())
	}
	err = c.commit(ctx, k, p)
	k.hangUp() // end of file: after the commit the client is done, before it the launch is abandoned
	if err == nil {
		return nil
	}
	left := launcher.Left(c.abandon(context.WithoutCancel(ctx)), "its directory %s and its processes", c.run.Dir)
	if left == nil {
		<-k.ended.Done() // what may be left of the keeper by now are open files
	}
	if launcher.ExitCode(err) == runstate.CodeInterrupted {
		return launcher.InterruptedLaunch(launcher.ID(c.run.Name), ctx.Err(), left)
	}
	return errors.Join(err, left)
}

// commit packs and hands everything over to the keeper.
func (c *cluster) commit(ctx context.Context, k *keeperProcess, p launcher.Payload) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(k.ended, func() { cancel(errKeeperEnded) }) //nolint:contextcheck // the keeper ends by itself
	defer stop()
	document, err := c.run.Pack(ctx, p)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		if err = c.run.Files.Commit(document); err != nil {
			err = writeFailed(c.run.Dir, err)
		}
	}
	if err == nil {
		k.hangUp()
		err = c.untilCommitted(ctx)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errKeeperEnded):
		return c.keeperFailure()
	case ctx.Err() != nil:
		return interrupted(ctx, c.run.Name)
	default:
		return err
	}
}

var errKeeperEnded = errors.New("the keeper ended")

// lookEvery is the interval at which files of other processes are polled where there is no notification.
const lookEvery = 10 * time.Millisecond

// roomAfter is how long the keeper may write nothing before we check whether its disk is full.
const roomAfter = 3 * time.Second

// untilCommitted waits until the keeper has read the commit.
func (c *cluster) untilCommitted(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for next := time.Now().Add(roomAfter); ; {
		st, err := c.run.LastState()
		if err != nil || st != nil && st.Committed {
			return err
		}
		if time.Now().After(next) {
			if err := c.run.Files.Room(); err != nil {
				return writeFailed(c.run.Dir, err)
			}
			next = time.Now().Add(roomAfter)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// keeperFailure is why the keeper ended before the commit, from its result or from what Python printed.
func (c *cluster) keeperFailure() error {
	if st, err := c.run.Files.Result(); err == nil && st.Exit != nil {
		return launcher.Fail(st.Exit.Code, nil, "`rayctl doctor` looks for what is missing", "%s did not start: %s", c.run.Name, st.Exit.Message)
	}
	if err := c.run.Files.Room(); err != nil {
		return writeFailed(c.run.Dir, err)
	}
	why := "it printed nothing"
	if b, err := os.ReadFile(c.run.Path(errFile)); err == nil && len(strings.TrimSpace(string(b))) > 0 {
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		why = strings.TrimSpace(lines[len(lines)-1])
	}
	hint := "check that " + c.run.Record.Python + " works"
	if strings.Contains(why, "[Errno 24]") { // EMFILE
		hint = "raise the limit of open files (`ulimit -n`)"
	}
	return launcher.Fail(runstate.CodeStartFailed, nil, hint, "the keeper of %s ended at once: %s", c.run.Name, why)
}
