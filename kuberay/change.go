package kuberay

import (
	"context"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

var _ launcher.Changer = (*Launcher)(nil)

// Accepted is the file in the Secret.
func (l *Launcher) Accepted(ctx context.Context, id launcher.ID) (*spec.ClusterSpec, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	job, err := c.Job(ctx, string(id))
	switch {
	case err != nil:
		return nil, err
	case job == nil:
		if _, _, err := l.lookAtRecord(ctx, c, string(id)); err != nil {
			return nil, err
		}
		return nil, launcher.NotFound(id)
	}
	return c.Launched(ctx, string(id))
}

// Accept replaces the file in the Secret, with the orders of a keeper that follows in another pod, and the hash by which launches compare.
func (l *Launcher) Accept(ctx context.Context, id launcher.ID, s *spec.ClusterSpec) error {
	c, err := l.kube(ctx)
	if err != nil {
		return err
	}
	if err := c.NoteSpec(ctx, s); err != nil {
		return err
	}
	mark := map[string]any{"metadata": map[string]any{"annotations": map[string]string{objects.AnnotationHash: spec.Hash(s)}}}
	return api.Explain(c.PatchJob(ctx, string(id), mark), "patch", "jobs.batch", c)
}
