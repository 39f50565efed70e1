package kuberay

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/kuberay/result"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
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
func (l *Launcher) existing(ctx context.Context, c *api.Client, p *objects.Plan, pay launcher.Payload) (bool, error) {
	begun := time.Now()
	for {
		what, why, err := l.look(ctx, c, p)
		if what != changing || err != nil {
			return what == same, err
		}
		if queue, bound := p.Spec.Lifetime.Queue.Bound(); bound && time.Since(begun) >= queue {
			return false, api.QueueTimeout(p.Spec.Name, "could not be launched", queue, why, "")
		}
		say(pay, why)
		if !sleep.For(ctx, lookAgain) {
			return false, api.Interrupted(ctx.Err(), p.Spec.Name)
		}
	}
}

// lookAgain is how often something that changes is looked at.
const lookAgain = time.Second

// look is one look at a name; why is for what changes.
func (l *Launcher) look(ctx context.Context, c *api.Client, p *objects.Plan) (what found, why string, err error) {
	name := p.Spec.Name
	job, err := c.AnyJob(ctx, name)
	switch {
	case err != nil:
		return nothing, "", err
	case job == nil:
		return l.lookAtRecord(ctx, c, name)
	case !api.IsOurs(job, objects.RoleKeeper, name):
		return nothing, "", api.Taken(job)
	case job.DeletionTimestamp != nil, observe.JobEnded(job):
		return changing, "the previous " + name + " is ending", nil
	}
	noted, err := c.NotedCommit(ctx, name)
	switch {
	case err != nil:
		return nothing, "", err
	case noted == nil && observe.NeverReleased(job, time.Now()):
		return changing, "removing a launch of " + name + " whose client has died", c.DeleteLaunch(ctx, name, job.UID) // it never got a keeper to end it
	case noted == nil && observe.InQueue(job):
		_, by := admit.QueueOf(job)
		return changing, "another client is launching " + name + ", and " + by.Title + " has not admitted its keeper yet", nil
	case noted == nil: // its keeper, or Kubernetes, ends it if it is not committed in time, whatever it was to be
		return changing, "another client is launching " + name, nil
	case job.Annotations[objects.AnnotationHash] != p.Hash:
		return nothing, "", launcher.Conflict(launcher.ID(name), c.Difference(ctx, p))
	}
	st, err := l.finishCommit(ctx, c, launcher.ID(name), noted)
	switch {
	case err != nil:
		l.log.Debug("the commit cannot be repeated", "cluster", name, "error", err)
	case st != nil && st.Changes > 0 && st.SpecHash != p.Hash: // the client that had it take another file died before that was recorded
		return nothing, "", launcher.Conflict(launcher.ID(name), launcher.ChangedMeanwhile)
	}
	return same, "", nil
}

// finishCommit sends the keeper the commit that is in the Secret, because the launching client may have died before it could. Keepers accept the
// same commit twice, and one in another pod has read it from the Secret. It returns the keeper's state; nil: its pod does not run.
func (l *Launcher) finishCommit(ctx context.Context, c *api.Client, id launcher.ID, noted []byte) (st *runstate.State, err error) {
	var document keeper.Commit
	if err := json.Unmarshal(noted, &document); err != nil {
		return nil, fmt.Errorf("read the commit of %s: %w", id, err)
	}
	pods, err := c.Core.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: objects.KeeperSelector(string(id))})
	if err != nil || !anyRuns(pods.Items) {
		return nil, api.Explain(err, "list", "pods", c)
	}
	err = launcher.AskKeeper(ctx, l, id, func(k *keeper.Client) error {
		st, err = k.Commit(ctx, document)
		return err
	})
	return st, err
}

// lookAtRecord looks at a name that no cluster has.
func (l *Launcher) lookAtRecord(ctx context.Context, c *api.Client, name string) (found, string, error) {
	record, err := c.AnyJob(ctx, objects.RecordName(name))
	switch {
	case err != nil || record == nil:
		return nothing, "", err
	case !api.IsOurs(record, objects.RoleRecord, name):
		return nothing, "", api.Taken(record)
	}
	complete, err := result.Complete(ctx, c, record)
	switch {
	case err != nil:
		return nothing, "", err
	case record.DeletionTimestamp != nil, !complete:
		return changing, "the record of the previous " + name + " is not complete yet", nil
	}
	return changing, "", l.ended(ctx, c, record)
}

// ended refuses a name whose record is kept. A launch that was never committed has no claim to its name.
func (l *Launcher) ended(ctx context.Context, c *api.Client, record *batchv1.Job) error {
	st, err := result.Read(ctx, c, record)
	if err != nil {
		return err
	}
	if st == nil && record.Spec.ActiveDeadlineSeconds != nil || st != nil && st.Exit.Cause == runstate.CauseAbandoned { // see objects.Provisional
		return c.DeleteJob(ctx, record.Name, record.UID)
	}
	return hasEnded(record.Labels[objects.LabelName], keptUntil(record))
}

func keptUntil(record *batchv1.Job) string {
	at := observe.EndOfJob(record)
	if at.IsZero() || record.Spec.TTLSecondsAfterFinished == nil {
		return ""
	}
	return " until " + launcher.Stamp(at.Add(time.Duration(*record.Spec.TTLSecondsAfterFinished)*time.Second))
}

func hasEnded(name, until string) error {
	return launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, "choose another name, or replace it with --recreate",
		"a cluster named %s has ended, and its record is kept%s", name, until)
}
