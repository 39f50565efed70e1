package kuberay

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Resources of the objects that Launch creates.
var (
	jobs     = batchv1.SchemeGroupVersion.WithResource("jobs")
	secrets  = corev1.SchemeGroupVersion.WithResource("secrets")
	services = corev1.SchemeGroupVersion.WithResource("services")
)

// Launch creates the cluster and commits it, see launcher.Launcher.
func (l *Launcher) Launch(ctx context.Context, s *spec.ClusterSpec, pay launcher.Payload) (launcher.ID, error) {
	s = prepare(s)
	c, err := l.kube(ctx)
	if err != nil {
		return "", err
	}
	p, err := newPlan(s, c.namespace, l.owner, c.served.volcano)
	if err != nil {
		return "", err
	}
	if p, err = p.with(pay); err != nil {
		return "", err
	}
	if err = c.readToken(ctx, p); err != nil {
		return "", err
	}
	if s.KubeRay.Keeper == keeperNone {
		return l.launchKeeperless(ctx, c, p, pay)
	}
	id := launcher.ID(s.Name)
	for {
		if exists, err := l.existing(ctx, c, p); exists || err != nil {
			return id, err
		}
		err := l.create(ctx, c, p, pay)
		if !apierrors.IsAlreadyExists(err) {
			return id, err
		}
	}
}

// create makes everything, hands the packages over and commits. Whatever fails, nothing stays. An error that
// apierrors.IsAlreadyExists tells that somebody else was first.
func (l *Launcher) create(ctx context.Context, c *client, p *plan, pay launcher.Payload) error {
	name := p.spec.Name
	job, err := c.create(ctx, jobs, p.keeperJob())
	if err != nil {
		return err
	}
	p.ownerUID = job.GetUID()
	l.setToken(launcher.ID(name), p.token)
	err = l.furnish(ctx, c, p)
	if err == nil {
		err = l.commit(ctx, c, p, pay)
	}
	if err == nil {
		return nil
	}
	if undo := l.undo(context.WithoutCancel(ctx), c, name, p.ownerUID); undo != nil {
		l.log.Warn("what was created could not be removed; it ends by itself", "cluster", name, "error", undo)
	}
	switch {
	case ctx.Err() != nil:
		return launcher.Fail(launcher.CodeInterrupted, ctx.Err(), "", "the launch of %s was interrupted; nothing was left behind", name)
	case apierrors.IsAlreadyExists(err):
		return foreign("RayCluster, Secret or Service", name) // ours would have had our Job before it
	}
	return err
}

// furnish creates what the Job owns, and the record.
func (l *Launcher) furnish(ctx context.Context, c *client, p *plan) error {
	secret, err := p.secret()
	if err != nil {
		return err
	}
	rc, err := p.rayCluster()
	if err != nil {
		return err
	}
	first, firstCtx := errgroup.WithContext(ctx)
	first.Go(func() error { return c.createOnly(firstCtx, secrets, secret) })
	first.Go(func() error { return c.createOnly(firstCtx, services, p.service()) })
	first.Go(func() error { return c.createConfigMaps(firstCtx, p, p.owned()) })
	if err := first.Wait(); err != nil {
		return err
	}
	// Nothing that takes room exists before there is a keeper to end it: the client may be killed at any moment.
	if err := c.unsuspend(ctx, p.spec.Name); err != nil {
		return err
	}
	next, nextCtx := errgroup.WithContext(ctx)
	next.Go(func() error { return l.createCluster(nextCtx, c, p, rc) })
	next.Go(func() error { return c.createOnly(nextCtx, jobs, p.recordJob()) })
	return next.Wait()
}

// undo deletes the Job, and so all that it owns, and the record.
func (l *Launcher) undo(ctx context.Context, c *client, name string, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	l.forgetWays(launcher.ID(name))
	if err := c.deleteJob(ctx, name, uid); err != nil {
		return err
	}
	return c.deleteJob(ctx, recordName(name), "")
}

const undoTimeout = 30 * time.Second

// unsuspend lets the keeper's pod start.
func (c *client) unsuspend(ctx context.Context, name string) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		return c.patchJob(ctx, name, map[string]any{"spec": map[string]any{"suspend": false}})
	})
	return explain(err, "patch", "jobs.batch", c)
}

// patchJob changes a Job by a merge patch. The error is Kubernetes' own.
func (c *client) patchJob(ctx context.Context, name string, change any) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode a change of job %s: %w", name, err)
	}
	_, err = c.core.BatchV1().Jobs(c.namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: managedBy})
	return err
}

// deleteJob deletes a Job with its pods; one that is gone, or is another one by now, is no error.
func (c *client) deleteJob(ctx context.Context, name string, uid types.UID) error {
	foreground := metav1.DeletePropagationForeground
	o := metav1.DeleteOptions{PropagationPolicy: &foreground}
	if uid != "" {
		o.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	err := c.core.BatchV1().Jobs(c.namespace).Delete(ctx, name, o)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return explain(err, "delete", "jobs.batch", c)
}

// existing compares the wish with what is there under the name; false: nothing, or no longer.
func (l *Launcher) existing(ctx context.Context, c *client, p *plan) (bool, error) {
	name := p.spec.Name
	record, err := c.job(ctx, recordName(name))
	if err != nil {
		return false, err
	}
	if record != nil && jobEnded(record) {
		return false, l.ended(ctx, c, record)
	}
	job, err := c.job(ctx, name)
	if err != nil || job == nil {
		return false, err
	}
	switch {
	case job.Labels[labelManagedBy] != managedBy:
		return false, foreign("Job", name)
	case job.DeletionTimestamp != nil:
		return false, c.awaitGone(ctx, name)
	case job.Annotations[annotationHash] != p.hash:
		return false, conflict(name, c.difference(ctx, p))
	case job.Spec.Suspend != nil && *job.Spec.Suspend && time.Since(job.CreationTimestamp.Time) > orders.Lease:
		return false, c.deleteJob(ctx, name, job.UID) // its client died at once; it has no keeper
	}
	return c.awaitCommit(ctx, name)
}

// ended refuses a name whose record is kept. A launch that was never committed has no claim to its name.
func (l *Launcher) ended(ctx context.Context, c *client, record *batchv1.Job) error {
	name := record.Labels[labelName]
	st, err := c.recorded(ctx, record)
	if err != nil {
		return err
	}
	if st != nil && st.Exit != nil && st.Exit.Cause == "abandoned" {
		return c.deleteJob(ctx, record.Name, record.UID)
	}
	return hasEnded(name, keptUntil(record))
}

func keptUntil(record *batchv1.Job) string {
	at := endOf(record)
	if at.IsZero() || record.Spec.TTLSecondsAfterFinished == nil {
		return ""
	}
	return " until " + at.Add(time.Duration(*record.Spec.TTLSecondsAfterFinished)*time.Second).Local().Format(time.DateTime)
}

// difference says in words what differs from what was launched.
func (c *client) difference(ctx context.Context, p *plan) string {
	was, err := c.launched(ctx, p.spec.Name)
	if err != nil {
		return "what differs cannot be read: " + cause(err)
	}
	return strings.Join(spec.Diff(was, p.spec), "; ")
}

// launched is the cluster file of a living cluster.
func (c *client) launched(ctx context.Context, name string) (*spec.ClusterSpec, error) {
	secret, err := c.core.CoreV1().Secrets(c.namespace).Get(ctx, secretName(name), metav1.GetOptions{})
	if err != nil {
		return nil, explain(err, "get", "secrets", c)
	}
	s := &spec.ClusterSpec{}
	if err := json.Unmarshal(secret.Data[specKey], s); err != nil {
		return nil, fmt.Errorf("read what was launched as %s: %w", name, err)
	}
	return s, nil
}

// job reads a Job; nil if there is none.
func (c *client) job(ctx context.Context, name string) (*batchv1.Job, error) {
	job, err := c.core.BatchV1().Jobs(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return job, explain(err, "get", "jobs.batch", c)
}

func jobEnded(job *batchv1.Job) bool { return !endOf(job).IsZero() }

// endOf is when a Job was complete or failed.
func endOf(job *batchv1.Job) time.Time {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
