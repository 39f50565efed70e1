package kuberay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

const (
	// endSlack is how long an end may take beyond the driver's grace before the keeper is taken for stuck. It waits for the record, which may
	// be slow to find it (PATIENCE in keeperpod.py): the driver's output is worth that.
	endSlack = 150 * time.Second
	// annotationResult is the result of a cluster whose keeper could not tell it, written by the client that ended it.
	annotationResult = "rayctl.io/result"
)

// Terminate asks the keeper to end the cluster, and deletes its Job where the keeper is not there or does not end.
func (l *Launcher) Terminate(ctx context.Context, id launcher.ID, end launcher.End) error {
	c, err := l.kube(ctx)
	if err != nil {
		return err
	}
	var job *batchv1.Job
	if err := patiently(ctx, func() error { job, err = c.job(ctx, string(id)); return err }); err != nil {
		return err
	}
	if job == nil || job.Labels[labelManagedBy] != managedBy {
		if err := c.refuseOthers(ctx, id); err != nil {
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
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err = l.askPatiently(asking, c, id, end); err == nil {
		err = l.untilGone(asking, id)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return interrupted(ctx.Err(), string(id))
	}
	l.log.Info("the keeper is not asked any longer", "cluster", id, "reason", err)
	return l.force(ctx, c, id, job.UID, end, err)
}

// ask hands the end to the keeper.
func (l *Launcher) ask(ctx context.Context, c *client, id launcher.ID, end launcher.End) error {
	pods, err := c.core.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: keeperSelector(string(id))})
	if l.resident(id) == nil && err == nil && !anyRuns(pods.Items) {
		return notReady(string(id), "keeper", nil)
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
	for _, p := range pods {
		if p.Status.Phase == corev1.PodRunning {
			return true
		}
	}
	return false
}

// force deletes the Job, and with it the cluster, and completes the record.
func (l *Launcher) force(ctx context.Context, c *client, id launcher.ID, uid types.UID, end launcher.End, why error) error {
	if err := c.closeRecord(ctx, string(id), end, why); err != nil {
		l.log.Warn("the record cannot be completed", "cluster", id, "error", err)
	}
	if err := patiently(ctx, func() error { return c.deleteJob(ctx, string(id), uid) }); err != nil {
		return err
	}
	return l.untilGone(ctx, id)
}

// outage is how long an API server that is restarted may be away before an end, or a commit, is given up.
const outage = 2 * time.Minute

// patiently repeats a call, which may be made twice, that failed because the API server did not answer.
func patiently(ctx context.Context, call func() error) error {
	ctx, cancel := context.WithTimeout(ctx, outage)
	defer cancel()
	for {
		err := call()
		if err == nil || !passes(err) || !sleep.For(ctx, time.Second) {
			return err
		}
	}
}

// askPatiently is ask; it waits for the API server, not for a keeper.
func (l *Launcher) askPatiently(ctx context.Context, c *client, id launcher.ID, end launcher.End) error {
	for {
		err := l.ask(ctx, c, id, end)
		if err == nil {
			return nil
		}
		if _, away := c.job(ctx, string(id)); away == nil || !retryable(away) || !sleep.For(ctx, time.Second) {
			return err
		}
	}
}

// closeRecord writes the result in place of a keeper that cannot, and ends the record's pod.
func (c *client) closeRecord(ctx context.Context, name string, end launcher.End, why error) error {
	message := cmp.Or(end.Message, "ended by the user")
	if why != nil {
		message += " (" + why.Error() + ")"
	}
	st := &runstate.State{Name: name, Launcher: "kuberay", Attempt: 1}
	runstate.Conclude(st, runstate.Verdict{Cause: end.Cause, Message: message, At: time.Now().UTC()})
	text, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	err = c.patchJob(ctx, recordName(name), map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{annotationResult: string(text)}},
		"spec":     map[string]any{"activeDeadlineSeconds": 1},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return explain(err, "patch", "jobs.batch", c)
}

// untilGone watches until nothing is left.
func (l *Launcher) untilGone(ctx context.Context, id launcher.ID) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	statuses, err := l.watch(ctx, id, true)
	if errors.Is(err, launcher.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for s := range statuses {
		if s.Phase.Ended() {
			return nil
		}
	}
	return launcher.Fail(runstate.CodeUnreachable, ctx.Err(), "`rayctl status "+string(id)+"` says what is left", "%s did not end in time", id)
}

// refuseOthers keeps our hands off clusters that rayctl did not make.
func (c *client) refuseOthers(ctx context.Context, id launcher.ID) error {
	rc, err := c.getCluster(ctx, id)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return explain(err, "get", rayClusters.GroupResource().String(), c)
	}
	if rc.GetLabels()[labelManagedBy] == managedBy {
		return nil
	}
	return launcher.Fail(runstate.CodeUsage, nil, "`kubectl delete raycluster -n "+rc.GetNamespace()+" "+string(id)+"` if it is yours", "the RayCluster %s was not made by rayctl, which does not end it", id)
}

// grace is the driver's, from what was launched.
func (l *Launcher) grace(ctx context.Context, c *client, id launcher.ID) time.Duration {
	s, err := c.launched(ctx, string(id))
	if err != nil || s.Job.Grace == nil {
		return 0
	}
	return time.Duration(*s.Job.Grace)
}
