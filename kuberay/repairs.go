package kuberay

import (
	"context"
	"errors"
	"log/slog"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/kuberay/result"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// repair is something to be done for one cluster.
type repair struct {
	launcher.Collected
	Do func(context.Context) error
}

// repairFinder finds what nobody is left to do for a user's clusters, for `rayctl gc`. Most ends by itself: the keeper ends a cluster at its
// limits, the Jobs' activeDeadlineSeconds end it after a keeper that does not, and a launch without a keeper; ttlSecondsAfterFinished removes records. What is
// left is listed at Find. A launch does none of it, because it would list the namespace's pods each time.
type repairFinder struct {
	Client *api.Client
	Owner  string // USER@HOST
	Log    *slog.Logger
	// State asks a cluster's keeper; Terminate ends a cluster.
	State     func(ctx context.Context, id launcher.ID) (*runstate.State, error)
	Terminate func(ctx context.Context, id launcher.ID, end launcher.End) error
	Now       func() time.Time // nil: time.Now
}

// Find returns the repairs that are needed, and changes nothing:
//   - a Job that was created suspended, whose client died before it, or its queue, could release it: nothing else counts its time
//   - a Job whose keeper has ended, but not another container that admission added to its pod
//   - a record without a cluster whose pod cannot start: it would wait for room only to report that the keeper has ended
//   - a cluster with kuberay.keeper: none, whose client, which was to end it at lifetime.max, has ended
//   - a start that cannot succeed, or a deleted RayCluster: see dueJudge, and stuck
//
// What it may not read it leaves alone.
func (f *repairFinder) Find(ctx context.Context) ([]repair, error) {
	all, _, err := observe.All(ctx, f.Client, launcher.Selector{})
	if err != nil {
		return nil, err
	}
	var out []repair
	var failures []error
	starting := map[string]*observe.Snapshot{}
	for name, o := range all {
		if f.Now != nil {
			o.Now = f.Now()
		}
		if owner, known := o.Owner(); !known || !observe.SameOwner(owner, f.Owner) {
			continue
		}
		r, err := f.repair(ctx, name, o)
		failures = append(failures, err)
		switch {
		case r != nil:
			out = append(out, *r)
		case startsLate(o):
			starting[name] = o
		}
	}
	out = append(out, f.stuck(ctx, starting)...)
	return out, errors.Join(failures...)
}

// repair is that of a cluster whose objects show it at one look; nil: none.
func (f *repairFinder) repair(ctx context.Context, name string, o *observe.Snapshot) (*repair, error) {
	found := func(what, why string, do func(context.Context) error) *repair {
		return &repair{launcher.Collected{What: what, Name: name, Why: why}, do}
	}
	switch {
	case neverReleased(o):
		if noted, err := f.Client.NotedCommit(ctx, name); err != nil || noted != nil { // somebody else has suspended it
			return nil, err
		}
		return found("launch", "its client died before it had a keeper", func(ctx context.Context) error { return f.Client.DeleteLaunch(ctx, name, o.Job.UID) }), nil
	case o.HeldByContainer() && o.Job.DeletionTimestamp == nil:
		return found("job", "another container in the keeper's pod keeps it alive", f.deleteJob(o.Job)), nil
	case recordWaits(o):
		end := launcher.End{Cause: runstate.CauseLost, Message: "the keeper was deleted before it could save the result"}
		return found("record", "its cluster has ended, and its pod cannot start", func(ctx context.Context) error { return result.Close(ctx, f.Client, name, end, nil) }), nil
	case keeperless(o):
		s, err := f.Client.Launched(ctx, name)
		if err != nil || !outlived(o, s) {
			return nil, err
		}
		return found("cluster", "lifetime.max has passed, and the client that kept it has ended", func(ctx context.Context) error {
			return f.Client.DeleteCluster(ctx, launcher.ID(name), o.Cluster.UID)
		}), nil
	}
	return nil, nil
}

func (f *repairFinder) deleteJob(job *batchv1.Job) func(context.Context) error {
	return func(ctx context.Context) error { return f.Client.DeleteJob(ctx, job.Name, job.UID) }
}

// neverReleased reports whether a Job is as a launch creates it, for longer than a launch takes.
func neverReleased(o *observe.Snapshot) bool {
	return o.Job != nil && o.Job.DeletionTimestamp == nil && observe.NeverReleased(o.Job, o.Now)
}

// recordWaits reports whether a record has neither a cluster nor a pod that runs.
func recordWaits(o *observe.Snapshot) bool {
	if o.Record == nil || o.Job != nil || o.Cluster != nil || o.Record.DeletionTimestamp != nil || o.RecordEnded() || o.Now.Sub(o.Record.CreationTimestamp.Time) < orders.Lease {
		return false
	}
	for _, p := range o.Role(objects.RoleRecord) {
		if p.Status.Phase == corev1.PodRunning || p.Spec.NodeName != "" { // it sees that the Secret is gone, within about a minute
			return false
		}
	}
	return true
}

// keeperless reports whether a cluster has no keeper on Kubernetes.
func keeperless(o *observe.Snapshot) bool {
	return o.Job == nil && o.Record == nil && o.Cluster != nil && o.Cluster.DeletionTimestamp == nil && len(o.Cluster.OwnerReferences) == 0
}

// lateSlack is how long after lifetime.max and the driver's grace a client that lives may need to end its cluster.
const lateSlack = 5 * time.Minute

// outlived reports whether a run's cluster has been ready for longer than its client would have let it. No limit counts for one without a job, see
// launchKeeperless.
func outlived(o *observe.Snapshot, s *spec.ClusterSpec) bool {
	limit, bound := s.Lifetime.Max.Bound()
	ready := o.Cluster.Status.StateTransitionTimes[rayv1.Ready]
	return s.Job.Entrypoint != "" && bound && ready != nil && o.Now.Sub(ready.Time) > limit+time.Duration(ptr.Deref(s.Job.Grace, 0))+lateSlack
}

// startsLate reports whether a cluster with a keeper is not ready yet.
func startsLate(o *observe.Snapshot) bool {
	if o.Job == nil {
		return false
	}
	switch observe.LivingStatus("", "", o, nil, "").Phase {
	case runstate.Queued, runstate.Provisioning, runstate.Starting:
		return true
	}
	return false
}
