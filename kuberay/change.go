package kuberay

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

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

// Extended moves the deadline of the keeper's Job, and notes the new limits for a keeper that follows in another pod.
func (l *Launcher) Extended(ctx context.Context, id launcher.ID, d runstate.Deadlines) error {
	c, err := l.kube(ctx)
	if err != nil {
		return err
	}
	if err := c.Note(ctx, string(id), map[string]string{objects.DeadlinesKey: noteOfDeadlines(d)}); err != nil {
		return err
	}
	job, err := c.Job(ctx, string(id))
	if err != nil || job == nil || job.Spec.ActiveDeadlineSeconds == nil || job.Status.StartTime == nil {
		return err // it has just ended, or is of an older rayctl and has no bound
	}
	end := time.Now().Add(objects.Longest)
	if d.Max != nil {
		launched, err := c.Launched(ctx, string(id))
		if err != nil {
			launched = nil // the defaults do: it is only when Kubernetes takes the keeper for stuck
		}
		end = d.Max.Add(objects.AfterMax(launched))
	}
	seconds := int64(end.Sub(job.Status.StartTime.Time).Seconds())
	if seconds <= *job.Spec.ActiveDeadlineSeconds {
		return nil
	}
	err = c.PatchJob(ctx, string(id), map[string]any{"spec": map[string]any{"activeDeadlineSeconds": seconds}})
	return api.Explain(err, "patch", "jobs.batch", c)
}
