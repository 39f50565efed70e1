package rundir

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// reserveFile is the room that a keeper holds for its result.
const reserveFile = ".reserve"

// SecretsLeft reports whether there are still files that must go with the cluster. The keeper removes them, unless its job was cancelled between two attempts.
func (r *Run) SecretsLeft(ctx context.Context) (bool, error) {
	kind, err := r.Root.Files.Kind(ctx, r.Path(seedDir))
	return r.Token != "" || kind != "", err
}

// Settled reports whether the result is the last one. As long as another attempt may follow, the secrets that it needs are still there.
func (r *Run) Settled(ctx context.Context) bool {
	if r.Result == nil {
		return false
	}
	left, err := r.SecretsLeft(ctx)
	return err == nil && !left
}

// RemoveSecrets removes secrets and packages, which must not outlive the cluster, where its keeper could not.
func (r *Run) RemoveSecrets(ctx context.Context) error {
	dir := r.AttemptDir()
	paths := []string{r.Path(seedDir)}
	names, err := r.Root.Files.Names(ctx, dir)
	if err != nil {
		return r.Root.Unreachable(err)
	}
	for _, name := range names {
		if keeper.IsSecret(name) || strings.HasPrefix(name, orders.PackagePrefix) || name == reserveFile || strings.HasSuffix(name, ".tmp") {
			paths = append(paths, path.Join(dir, name))
		}
	}
	if err := r.Root.Files.Remove(ctx, paths...); err != nil {
		return r.WriteFailed(err)
	}
	return nil
}

// WriteResult writes the result in a dead keeper's place, with what there is of the driver's output. If the keeper, or another client, was faster,
// theirs stays.
func (r *Run) WriteResult(ctx context.Context, st *runstate.State) error {
	output, err := r.Saved(ctx, st.Job, true)
	if err != nil {
		return err
	}
	st.Log = output.Log(st.Job)
	err = r.Root.Files.WriteJSON(ctx, path.Join(r.AttemptDir(), keeper.ResultFile), st, true)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return r.WriteFailed(err)
	}
	r.share(ctx)
	return r.Read(ctx)
}

// ReplaceResult writes the result of the last attempt again, where it was given another cause.
func (r *Run) ReplaceResult(ctx context.Context, st *runstate.State) error {
	if err := r.Root.Files.WriteJSON(ctx, path.Join(r.AttemptDir(), keeper.ResultFile), st, false); err != nil {
		return r.WriteFailed(err)
	}
	r.share(ctx)
	return nil
}

// share copies what job.shareDir gets, in a keeper's place. The run has its result whether this succeeds or not.
func (r *Run) share(ctx context.Context) {
	if r.Record == nil || r.Record.Spec.Job.ShareDir == "" {
		return
	}
	var answer struct{ Failed string }
	err := r.Root.Files.Call(ctx, "share", map[string]any{"attempt": r.AttemptDir()}, &answer)
	if err != nil || answer.Failed != "" {
		r.Root.log.Warn("the end of the run was not copied to job.shareDir", "cluster", r.Name, "error", err, "reason", answer.Failed)
	}
}
