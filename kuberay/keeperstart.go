package kuberay

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher"
)

// prolongEvery is how often a client that waits for its keeper's pod moves the deadline of the Jobs.
const prolongEvery = objects.StartDeadline / 5

// admitted reports whether the keeper runs, and the operator has looked at the RayCluster, or does not run.
func (m *making) admitted(o *observe.Snapshot) bool {
	return observe.KeeperRuns(o) && (o.Admitted() || o.Now.Sub(m.furnished) > observe.Silence)
}

// awaitKeeper waits until the keeper's container runs and what else is needed is there, and reports why it is not yet. The keeper's pod is in no gang, but there may
// be no node or no quota for it, or its queue has not admitted it. A cause that does not pass by itself (its image, its Secret) is returned as an error.
func (m *making) awaitKeeper(ctx context.Context, enough func(*observe.Snapshot) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The way to the keeper needs this permission; watches may do without.
	if _, err := m.c.Core.CoreV1().Pods(m.c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: objects.KeeperSelector(m.p.Spec.Name), Limit: 1}); err != nil {
		return api.Explain(err, "list", "pods", m.c)
	}
	live, err := observe.NewOwnCache(ctx, m.c, m.p.Spec.Name)
	if err != nil {
		return err
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	wait := observe.KeeperWait{Plan: m.p, Begun: m.begun}
	for {
		o := live.Snapshot()
		why, err := wait.WaitsFor(o)
		if err != nil {
			return err
		}
		if enough(o) {
			m.warnOf(o.Endless())
			return nil
		}
		say(m.pay, cmp.Or(live.Trouble(), why))
		m.prolong(ctx, o.Job)
		select {
		case <-ctx.Done():
			return api.Interrupted(ctx.Err(), m.p.Spec.Name)
		case <-live.Changed:
		case <-tick.C:
		}
	}
}

// warnOf warns of containers of the keeper's pod that may never end.
func (m *making) warnOf(endless []string) {
	if len(endless) > 0 && kuberayspec.Of(m.p.Spec).KeeperServiceAccountName == "" && m.pay.Warn != nil {
		m.pay.Warn(observe.Holds(endless) + "; " + observe.HoldsHint)
	}
}

// prolong moves the deadline of both Jobs, now and then. Kubernetes counts from later on, and not at all while the Jobs wait in a queue; gc counts then
// (observe.NeverReleased), and Kubernetes begins once they are released.
func (m *making) prolong(ctx context.Context, job *batchv1.Job) {
	released := m.held && !observe.InQueue(job)
	if m.held = observe.InQueue(job); released {
		m.counting = time.Now()
	} else if time.Since(m.prolonged) < prolongEvery {
		return
	}
	m.prolonged = time.Now()
	seconds := int64((time.Since(m.counting) + objects.StartDeadline).Seconds())
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	for _, name := range []string{m.p.Spec.Name, objects.RecordName(m.p.Spec.Name)} {
		if err := m.c.PatchJob(ctx, name, map[string]any{"spec": map[string]any{"activeDeadlineSeconds": seconds}}); err != nil {
			m.l.log.Debug("a deadline cannot be moved now", "job", name, "error", err)
		}
	}
}

// setLimits gives both Jobs the limits that they are to have, in place of those of provisional.
func (m *making) setLimits(ctx context.Context) error {
	both, bothCtx := errgroup.WithContext(ctx)
	for _, job := range []*batchv1.Job{m.p.KeeperJob(), m.p.RecordJob()} {
		limits := map[string]any{"activeDeadlineSeconds": job.Spec.ActiveDeadlineSeconds, "ttlSecondsAfterFinished": job.Spec.TTLSecondsAfterFinished}
		both.Go(func() error { return m.c.PatchJob(bothCtx, job.Name, map[string]any{"spec": limits}) })
	}
	return api.Explain(both.Wait(), "patch", "jobs.batch", m.c)
}

// say shows what a launch waits for.
func say(pay launcher.Payload, why string) {
	if why != "" && pay.Progress != nil {
		pay.Progress(launcher.Progress{Text: why})
	}
}
