package rundir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/remote"
)

// Claim takes the name, if nobody has it. python is the interpreter on the nodes.
func (r *Run) Claim(ctx context.Context, s *spec.ClusterSpec, p launcher.Payload, python string) (bool, error) {
	dir, owner, err := r.Root.Locate(ctx)
	if err != nil {
		return false, err
	}
	record := &Record{
		Name: s.Name, Owner: owner, Nonce: rand.Text(), Created: time.Now().UTC(), Labels: s.Labels, Command: p.Command,
		Python: python, Programs: ProgramsIn(dir), Spec: s,
	}
	err = r.Root.Files.WriteJSON(ctx, r.Path(recordFile), record, true)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, remote.ErrCut) { // cut: it may be there, and ours
		if err := r.Read(ctx); err != nil {
			return false, err
		}
		return r.Record != nil && r.Record.Nonce == record.Nonce, nil
	}
	if err != nil {
		_ = r.Root.Files.RemoveEmpty(context.WithoutCancel(ctx), r.Dir) // the way to a file that could not be written
		return false, r.WriteFailed(err)
	}
	r.Record = record
	return true, nil
}

// Accept replaces the record's cluster file.
func (r *Run) Accept(ctx context.Context, s *spec.ClusterSpec) error {
	r.Record.Spec = s
	if err := r.Root.Files.WriteJSON(ctx, r.Path(recordFile), r.Record, false); err != nil {
		return r.WriteFailed(err)
	}
	return nil
}

// Heartbeat keeps others from taking a long launch for a dead one.
func (r *Run) Heartbeat(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for sleep.For(ctx, orders.Lease/4); ctx.Err() == nil; sleep.For(ctx, orders.Lease/4) {
			if err := r.Root.Files.Call(ctx, "touch", map[string]any{"path": r.Path(recordFile)}, nil); err != nil {
				r.Root.log.Debug("the claim cannot be renewed", "cluster", r.Name, "error", err)
			}
		}
	}()
	return cancel
}

// Commit notes the id of the batch job and lets the job start the cluster.
func (r *Run) Commit(ctx context.Context, job int) error {
	f := r.Root.Files
	if err := f.WriteBytes(ctx, r.Path(jobFile), []byte(strconv.Itoa(job))); err != nil {
		return err
	}
	err := f.Call(ctx, "rename", map[string]any{"path": r.Path(commitName + ".staged"), "to": r.Path(commitName)}, nil)
	if errors.Is(err, fs.ErrNotExist) { // asked twice
		if err := r.Read(ctx); err == nil && r.Committed {
			return nil
		}
	}
	return err
}

// Remove deletes the run's directory. Output of drivers that is in it stays.
func (r *Run) Remove(ctx context.Context) error {
	f := r.Root.Files
	names, err := f.Names(ctx, r.Dir)
	if err != nil || len(names) == 0 {
		return r.Root.Unreachable(err)
	}
	paths := []string{r.Path(recordFile)} // first: without it the rest is nobody's cluster
	for _, name := range names {
		if name != OutputName && name != recordFile {
			paths = append(paths, r.Path(name))
		}
	}
	if err := f.Remove(ctx, paths...); err != nil {
		return launcher.Fail(runstate.CodeInternal, err, "remove it yourself", "the record of %s cannot be removed: %v", r.Name, err)
	}
	for _, dir := range []string{r.Path(OutputName), r.Dir} {
		if err := f.RemoveEmpty(ctx, dir); err != nil {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
	}
	return nil
}
