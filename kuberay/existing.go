package kuberay

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/launcher/spec"
)

// found is what is under a name.
type found int

const (
	nothing  found = iota
	same           // what is wished for, committed
	changing       // it will soon be something else
)

// existing compares the wish with what is there under the name; false: nothing, or no longer. What another client is making, or what is on
// its way out, is waited for: a client that has died is no client for longer than its lease.
func (l *Launcher) existing(ctx context.Context, c *client, p *plan, pay launcher.Payload) (bool, error) {
	begun := time.Now()
	for {
		what, why, err := l.look(ctx, c, p)
		if what != changing || err != nil {
			return what == same, err
		}
		if queue, bound := p.spec.Lifetime.Queue.Bound(); bound && time.Since(begun) >= queue {
			return false, queueTimeout(p.spec.Name, "could not be launched", queue, why, "")
		}
		say(pay, why)
		if !sleep.For(ctx, lookAgain) {
			return false, interrupted(ctx.Err(), p.spec.Name)
		}
	}
}

// lookAgain is how often something that changes is looked at.
const lookAgain = time.Second

// look is one look at a name; why is for what changes.
func (l *Launcher) look(ctx context.Context, c *client, p *plan) (what found, why string, err error) {
	name := p.spec.Name
	job, err := c.anyJob(ctx, name)
	switch {
	case err != nil:
		return nothing, "", err
	case job == nil:
		return l.lookAtRecord(ctx, c, name)
	case !isOurs(job, roleKeeper, name):
		return nothing, "", taken(job)
	case job.DeletionTimestamp != nil, jobEnded(job):
		return changing, "the " + name + " that was there is ending", nil
	}
	noted, err := c.notedCommit(ctx, name)
	switch {
	case err != nil:
		return nothing, "", err
	case noted == nil && ptr.Deref(job.Spec.Suspend, false) && time.Since(job.CreationTimestamp.Time) > orders.Lease:
		return changing, "a launch of " + name + " whose client has died is removed", c.deleteJob(ctx, name, job.UID) // it never got a keeper to end it
	case noted == nil: // its keeper, or Kubernetes, ends it if it is not committed in time, whatever it was to be
		return changing, "another client is launching " + name, nil
	case job.Annotations[annotationHash] != p.hash:
		return nothing, "", conflict(name, c.difference(ctx, p))
	}
	if err := l.finishCommit(ctx, c, launcher.ID(name), noted); err != nil {
		l.log.Debug("the commit cannot be repeated", "cluster", name, "error", err)
	}
	return same, "", nil
}

// notedCommit is the commit of a cluster; nil if there is none (yet).
func (c *client) notedCommit(ctx context.Context, name string) ([]byte, error) {
	secret, err := c.core.CoreV1().Secrets(c.namespace).Get(ctx, secretName(name), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, explain(err, "get", "secrets", c)
	}
	return secret.Data[commitKey], nil
}

// finishCommit tells the keeper what was noted, for its client may have died before it could. A keeper takes the same commit twice, and one
// that is in another pod by now has read the note.
func (l *Launcher) finishCommit(ctx context.Context, c *client, id launcher.ID, noted []byte) error {
	var document keeper.Commit
	if err := json.Unmarshal(noted, &document); err != nil {
		return fmt.Errorf("read the commit of %s: %w", id, err)
	}
	pods, err := c.core.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: keeperSelector(string(id))})
	if err != nil || !anyRuns(pods.Items) {
		return explain(err, "list", "pods", c)
	}
	return launcher.AskKeeper(ctx, l, id, func(k *keeper.Client) error {
		_, err := k.Commit(ctx, document)
		return err
	})
}

// lookAtRecord looks at a name that no cluster has.
func (l *Launcher) lookAtRecord(ctx context.Context, c *client, name string) (found, string, error) {
	record, err := c.anyJob(ctx, recordName(name))
	switch {
	case err != nil || record == nil:
		return nothing, "", err
	case !isOurs(record, roleRecord, name):
		return nothing, "", taken(record)
	case record.DeletionTimestamp != nil, !jobEnded(record):
		return changing, "the record of the " + name + " that was there is not finished", nil
	}
	return changing, "", l.ended(ctx, c, record)
}

// ended refuses a name whose record is kept. A launch that was never committed has no claim to its name.
func (l *Launcher) ended(ctx context.Context, c *client, record *batchv1.Job) error {
	st, err := c.recorded(ctx, record)
	if err != nil {
		return err
	}
	if st == nil && record.Spec.ActiveDeadlineSeconds != nil || st != nil && st.Exit.Cause == runstate.CauseAbandoned { // see provisional
		return c.deleteJob(ctx, record.Name, record.UID)
	}
	return hasEnded(record.Labels[labelName], keptUntil(record))
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

// anyJob reads a Job, whoever made it; nil if there is none.
func (c *client) anyJob(ctx context.Context, name string) (*batchv1.Job, error) {
	job, err := c.core.BatchV1().Jobs(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return job, explain(err, "get", "jobs.batch", c)
}

// job reads the keeper's Job of a cluster; nil if there is none. One that has its name for another reason is none: x-record is the record of x
// as well as a name that a cluster may have.
func (c *client) job(ctx context.Context, name string) (*batchv1.Job, error) {
	job, err := c.anyJob(ctx, name)
	if job != nil && !isOurs(job, roleKeeper, name) {
		job = nil
	}
	return job, err
}

// record reads the record of a cluster; nil if there is none.
func (c *client) record(ctx context.Context, name string) (*batchv1.Job, error) {
	record, err := c.anyJob(ctx, recordName(name))
	if record != nil && !isOurs(record, roleRecord, name) {
		record = nil
	}
	return record, err
}

func isOurs(job *batchv1.Job, role, name string) bool {
	return job.Labels[labelManagedBy] == managedBy && job.Labels[labelRole] == role && job.Labels[labelName] == name
}

// taken refuses a name that another Job has.
func taken(job *batchv1.Job) error {
	if job.Labels[labelManagedBy] != managedBy {
		return foreign("Job", job.Name)
	}
	return launcher.Fail(runstate.CodeSpec, launcher.ErrConflict, "choose another name", "the Job %s is the %s of the cluster %s", job.Name, job.Labels[labelRole], job.Labels[labelName])
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
