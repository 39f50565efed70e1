package kuberay

import (
	"cmp"
	"context"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/kuberay/result"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Result reads the record: its pod's termination message is the final state document, its log the driver's, or what is kept of submitted jobs.
func (l *Launcher) Result(ctx context.Context, id launcher.ID) (*launcher.Result, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	if r := l.resident(id); r != nil {
		return r.Result(id, c.Namespace)
	}
	name := string(id)
	record, err := c.Record(ctx, name)
	if err != nil {
		return nil, err
	}
	if record == nil {
		return nil, noResult(ctx, c, id, record)
	}
	pods, err := c.PodsOf(ctx, record)
	if err != nil {
		return nil, err
	}
	o := &observe.Snapshot{Now: observe.EndOfJob(record), Record: record, Pods: pods}
	if !o.RecordEnded() {
		return nil, noResult(ctx, c, id, record)
	}
	st := result.Left(o)
	if st == nil || st.Exit.Cause == runstate.CauseLost { // the record lost the keeper; the keeper itself may still live
		if lives, err := keeperLives(ctx, c, name); lives || err != nil {
			return nil, cmp.Or(err, error(launcher.NotEnded(id)))
		}
	}
	saved, info, err := result.FindLog(ctx, c, o, st)
	if err != nil {
		return nil, err
	}
	s := observe.FinalStatus(id, c.Namespace, o, result.Of(o))
	r := launcher.NewResult(s, info, saved.Open)
	r.Jobs = result.KeptJobs(c, o, st)
	return r, nil
}

// noResult returns the error of a missing result: the cluster still runs, or there is none.
func noResult(ctx context.Context, c *api.Client, id launcher.ID, record *batchv1.Job) error {
	if record != nil {
		return launcher.NotEnded(id)
	}
	if job, err := c.Job(ctx, string(id)); err != nil || job != nil {
		if err != nil {
			return err
		}
		return launcher.NotEnded(id)
	}
	_, err := c.GetCluster(ctx, id)
	if err == nil {
		return launcher.NotEnded(id)
	}
	if apierrors.IsNotFound(err) {
		return launcher.NotFound(id)
	}
	return api.Explain(err, "get", api.RayClusters.GroupResource().String(), c)
}

// keeperLives reports whether the keeper's Job has not ended.
func keeperLives(ctx context.Context, c *api.Client, name string) (bool, error) {
	job, err := c.Job(ctx, name)
	return job != nil && job.DeletionTimestamp == nil && !observe.JobEnded(job), err
}

// Forget removes the record of an ended cluster. A Job that only has its name is left alone.
func (l *Launcher) Forget(ctx context.Context, id launcher.ID) error {
	c, err := l.kube(ctx)
	if err != nil {
		return err
	}
	if job, err := c.Job(ctx, string(id)); err != nil || job != nil {
		if err != nil {
			return err
		}
		return launcher.NotEnded(id)
	}
	record, err := c.AnyJob(ctx, objects.RecordName(string(id)))
	if err != nil || record == nil {
		return err
	}
	if !api.IsOurs(record, objects.RoleRecord, string(id)) {
		return api.Taken(record)
	}
	if err := c.DeleteJob(ctx, record.Name, record.UID); err != nil {
		return err
	}
	return c.AwaitGone(ctx, record.Name)
}
