package kuberay

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/kuberay/result"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// endSlack is how long an end may take beyond the driver's grace until the keeper counts as stuck. The end waits for the record, which may
// be slow to find it (PATIENCE in keeper/rayctl_keeper/http/handover.py): the driver's output is worth that.
const endSlack = 150 * time.Second

// Terminate asks the keeper to end the cluster, and deletes its Job where the keeper is not there or does not end.
func (l *Launcher) Terminate(ctx context.Context, id launcher.ID, end launcher.End) error {
	c, err := l.kube(ctx)
	if err != nil {
		return err
	}
	var job *batchv1.Job
	if err := api.Patiently(ctx, func() error { job, err = c.Job(ctx, string(id)); return err }); err != nil {
		return err
	}
	if job == nil || job.Labels[objects.LabelManagedBy] != objects.ManagedBy {
		if err := refuseOthers(ctx, c, id); err != nil {
			return err
		}
		if err := l.endKeeperless(ctx, c, id, end); err != nil {
			return err
		}
		return l.untilGone(ctx, id)
	}
	limit := endSlack
	if !end.Now {
		limit += l.grace(ctx, c, id)
	}
	if pods, err := c.PodsOf(ctx, job); err == nil && (&observe.Snapshot{Job: job, Pods: pods}).HeldByContainer() {
		return l.untilGone(ctx, id) // the keeper has ended it already, and the result is recorded: only the Job is left to delete
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	timer, held := time.AfterFunc(limit, cancel), false
	defer timer.Stop()
	if err = l.askPatiently(asking, c, id, end); err == nil {
		err = l.untilGone(asking, id, func(s launcher.Status) {
			was := held
			held = s.Job != nil && s.Job.WaitsForFetch && !end.Now
			switch {
			case held: // for a client, as long as it copies
				timer.Stop()
			case was:
				timer.Reset(limit)
			}
		})
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return api.Interrupted(ctx.Err(), string(id))
	}
	l.log.Info("the keeper is no longer asked to end the cluster", "cluster", id, "reason", err)
	return l.force(ctx, c, id, job.UID, end, err)
}

// ask requests the end from the keeper.
func (l *Launcher) ask(ctx context.Context, c *api.Client, id launcher.ID, end launcher.End) error {
	pods, err := c.Core.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: objects.KeeperSelector(string(id))})
	if l.resident(id) == nil && err == nil && !anyRuns(pods.Items) {
		return api.NotReady(string(id), "keeper", nil)
	}
	err = launcher.AskKeeper(ctx, l, id, func(k *keeper.Client) error {
		return untilAnswered(ctx, func() error {
			_, err := k.End(ctx, keeper.End{Cause: end.Cause, Message: end.Message, By: l.owner, Now: end.Now})
			return err
		})
	})
	var refused *keeper.Error
	if errors.As(err, &refused) {
		return nil // it has ended already
	}
	return err
}

func anyRuns(pods []corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return observe.RunsKeeper(&p) })
}

// force deletes the Job, and with it the cluster, and completes the record.
func (l *Launcher) force(ctx context.Context, c *api.Client, id launcher.ID, uid types.UID, end launcher.End, why error) error {
	if err := result.Close(ctx, c, string(id), end, why); err != nil {
		l.log.Warn("the record cannot be completed", "cluster", id, "error", err)
	}
	if err := api.Patiently(ctx, func() error { return c.DeleteJob(ctx, string(id), uid) }); err != nil {
		return err
	}
	return l.untilGone(ctx, id)
}

// askPatiently is ask; it waits for the API server, not for a keeper.
func (l *Launcher) askPatiently(ctx context.Context, c *api.Client, id launcher.ID, end launcher.End) error {
	for {
		err := l.ask(ctx, c, id, end)
		if err == nil {
			return nil
		}
		if _, away := c.Job(ctx, string(id)); away == nil || !api.Retryable(away) || !sleep.For(ctx, time.Second) {
			return err
		}
	}
}

// untilGone watches until nothing is left, and reports what it waits for.
func (l *Launcher) untilGone(ctx context.Context, id launcher.ID, see ...func(launcher.Status)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	statuses, err := l.WatchAndTend(ctx, id)
	if errors.Is(err, launcher.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	waits := "its state is not known"
	for s := range statuses {
		if s.Phase.Ended() {
			return nil
		}
		for _, see := range see {
			see(s)
		}
		if why := cmp.Or(s.Unreachable, s.Reason.Message, "it is "+string(s.Phase)); why != waits {
			waits = why
			l.log.Info("waiting for its end", "cluster", id, "for", waits)
		}
	}
	return launcher.Fail(runstate.CodeUnreachable, ctx.Err(), "`rayctl status "+string(id)+"` shows what is left", "%s did not end in time: %s", id, waits)
}

// refuseOthers refuses to end clusters that rayctl did not make.
func refuseOthers(ctx context.Context, c *api.Client, id launcher.ID) error {
	rc, err := c.GetCluster(ctx, id)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return api.Explain(err, "get", api.RayClusters.GroupResource().String(), c)
	}
	if rc.GetLabels()[objects.LabelManagedBy] == objects.ManagedBy {
		return nil
	}
	return launcher.Fail(runstate.CodeUsage, nil, "`kubectl delete raycluster -n "+rc.GetNamespace()+" "+string(id)+"` if it is yours", "the RayCluster %s was not made by rayctl, which does not end it", id)
}

// grace is the driver's, from what was launched.
func (l *Launcher) grace(ctx context.Context, c *api.Client, id launcher.ID) time.Duration {
	s, err := c.Launched(ctx, string(id))
	if err != nil || s.Job.Grace == nil {
		return 0
	}
	return time.Duration(*s.Job.Grace)
}
