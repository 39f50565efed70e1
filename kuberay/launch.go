package kuberay

import (
	"cmp"
	"context"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Launch creates the cluster and commits it, see launcher.Launcher. Packages are made before anything is created: however long that takes, it
// holds no room, and no lease runs out.
func (l *Launcher) Launch(ctx context.Context, s *spec.ClusterSpec, pay launcher.Payload) (launcher.ID, error) {
	s = spec.For(s, kuberayspec.Name)
	c, p, err := l.planned(ctx, s, pay)
	if err != nil {
		return "", err
	}
	if open := p.Open(); open != "" && pay.Warn != nil {
		pay.Warn(open)
	}
	if kuberayspec.Of(s).Keeper == objects.KeeperNone {
		packages, err := packPayload(ctx, pay)
		if err != nil {
			return "", err
		}
		return l.launchKeeperless(ctx, c, p, withPacked(pay, packages))
	}
	id := launcher.ID(s.Name)
	l.keepPayload(id, pay)
	for {
		if exists, err := l.existing(ctx, c, p, pay); exists || err != nil {
			return id, err
		}
		if err := c.RequireQueue(ctx, p); err != nil {
			return id, err
		}
		packages, err := packPayload(ctx, pay)
		if err != nil {
			return id, err
		}
		pay, p.Kept = withPacked(pay, packages), objects.Keepable(packages)
		err = (&making{l: l, c: c, p: p, pay: pay}).create(ctx)
		if !apierrors.IsAlreadyExists(err) {
			return id, err
		}
	}
}

// planned is what Launch makes of a spec, with the namespace that it goes to.
func (l *Launcher) planned(ctx context.Context, s *spec.ClusterSpec, pay launcher.Payload) (*api.Client, *objects.Plan, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, nil, err
	}
	p, err := objects.NewPlan(s, c.Namespace, l.owner, c.Served.Admitters)
	if err != nil {
		return nil, nil, err
	}
	if p, err = p.With(pay); err != nil {
		return nil, nil, err
	}
	if err := obeyHolds(ctx, c, p); err != nil {
		return nil, nil, err
	}
	return c, p, c.ReadToken(ctx, p)
}

// obeyHolds fits a plan to what suspends objects in its namespace, or returns why it cannot start there.
func obeyHolds(ctx context.Context, c *api.Client, p *objects.Plan) error {
	h := c.Holds(ctx, p)
	if h.Cluster.Held && p.Spec.Head.Early {
		r := observe.HeadHeld(c.Namespace, h.By)
		return launcher.Fail(runstate.CodeStartFailed, nil, r.Hint, "%s cannot start: %s", p.Spec.Name, r.Message)
	}
	return p.Obey(h)
}

// Validate finds what Launch refuses, see launcher.Launcher.
func (l *Launcher) Validate(ctx context.Context, s *spec.ClusterSpec, pay launcher.Payload) error {
	c, p, err := l.planned(ctx, spec.For(s, kuberayspec.Name), pay)
	if err != nil {
		return err
	}
	if err := c.RequireQueue(ctx, p); err != nil {
		return err
	}
	if _, err = c.DryRun(ctx, p); api.OutOfQuota(err) {
		return nil // by what is there under the name, perhaps
	}
	return err
}

// making is one launch under way.
type making struct {
	l   *Launcher
	c   *api.Client
	p   *objects.Plan
	pay launcher.Payload

	begun     time.Time // the keeper's Job was released, or left to its queue
	counting  time.Time // what the Jobs' deadlines count from: begun, or when its queue released the keeper's Job
	prolonged time.Time // the Jobs' deadlines were moved last
	held      bool      // the keeper's Job waited in a queue at the last look
	furnished time.Time // the RayCluster was created
}

// create makes everything, hands the packages over and commits. If a step fails, everything is deleted
// again. An error for which apierrors.IsAlreadyExists is true means that another client launched the name first.
func (m *making) create(ctx context.Context) error {
	name := m.p.Spec.Name
	m.awaitFree(ctx)
	job, err := m.c.Create(ctx, api.Jobs, objects.Provisional(m.p.KeeperJob()))
	if err != nil {
		return err
	}
	m.p.OwnerUID = job.GetUID()
	m.l.setToken(launcher.ID(name), m.p.Token)
	err = m.furnish(ctx)
	if err == nil {
		err = m.commit(ctx)
	}
	if err == nil {
		return nil
	}
	undo := m.undo(context.WithoutCancel(ctx))
	if undo != nil {
		m.l.log.Warn("what was created could not be removed; it ends by itself", "cluster", name, "error", undo)
	}
	if ctx.Err() != nil {
		return launcher.InterruptedLaunch(launcher.ID(name), ctx.Err(), launcher.Left(undo, "its objects in namespace %s", m.c.Namespace))
	}
	return err
}

// awaitFree waits, where a queue may release the keeper's Job at once, until no Secret of an earlier cluster of the name is left, with which its pod would start. Whose it
// is otherwise shows when the Job or the Secret is created.
func (m *making) awaitFree(ctx context.Context) {
	if !m.p.JobsHeld {
		return
	}
	secret, err := m.p.Secret()
	if err == nil {
		err = m.c.AwaitFree(ctx, secret, m.p.Spec.Name)
	}
	if err != nil {
		m.l.log.Debug("the Secret's name is not free", "cluster", m.p.Spec.Name, "error", err)
	}
}

// furnish creates what the Job owns, and the record.
func (m *making) furnish(ctx context.Context) error {
	rc, err := m.p.RayCluster()
	if err != nil {
		return err
	}
	if err := m.serve(ctx); err != nil {
		return err
	}
	m.begun = time.Now()
	m.counting, m.prolonged = m.begun, m.begun
	record := func(ctx context.Context) error { // existing finds whose name it is
		return m.c.CreateOnly(ctx, api.Jobs, objects.Provisional(m.p.RecordJob()))
	}
	// Nothing that takes room exists before its Job counts towards its deadline, see objects.Provisional: the client may be killed at any moment.
	if m.p.JobsHeld {
		if err := record(ctx); err != nil { // before the RayCluster, so that no queue admits that one first
			return err
		}
		if err := m.awaitKeeper(ctx, observe.KeeperRuns); err != nil {
			return err
		}
		return m.createCluster(ctx, rc)
	}
	if err := m.c.Unsuspend(ctx, m.p.Spec.Name); err != nil {
		return err
	}
	next, nextCtx := errgroup.WithContext(ctx)
	next.Go(func() error { return m.createCluster(nextCtx, rc) })
	next.Go(func() error { return record(nextCtx) })
	return next.Wait()
}

// serve creates what the pods of keeper and cluster need.
func (m *making) serve(ctx context.Context) error {
	c, p, name := m.c, m.p, m.p.Spec.Name
	secret, err := p.Secret()
	if err != nil {
		return err
	}
	all, allCtx := errgroup.WithContext(ctx)
	all.Go(func() error { return c.CreateOwn(allCtx, api.Secrets, secret, name) })
	all.Go(func() error { return c.CreatePackages(allCtx, p) })
	all.Go(func() error { return c.CreateOwn(allCtx, api.Services, p.Service(), name) })
	all.Go(func() error { return c.CreateConfigMaps(allCtx, p, p.Owned()) })
	return all.Wait()
}

// createCluster creates the RayCluster, and what holds its pods together.
func (m *making) createCluster(ctx context.Context, rc *rayv1.RayCluster) error {
	defer func() { m.furnished = time.Now() }()
	return m.c.AfterLeftovers(ctx, api.RayClusters, rc.Name, rc.Name, func() error { return m.l.createCluster(ctx, m.c, m.p, rc) })
}

// undo deletes the Job, and so all that it owns, and the record if it is this launch's.
func (m *making) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	m.l.closeTransports(launcher.ID(m.p.Spec.Name))
	return m.c.DeleteLaunch(ctx, m.p.Spec.Name, m.p.OwnerUID)
}

const undoTimeout = 30 * time.Second

// Render returns what Launch would create, in that order, the Secret's values left out. Without a Kubernetes to ask, scheduler: auto
// is taken as that of the first one known (package admit).
func (l *Launcher) Render(s *spec.ClusterSpec) ([]launcher.File, error) {
	p, err := l.imagined(s)
	if err != nil {
		return nil, err
	}
	return objects.Render(p)
}

// RenderNetwork returns the NetworkPolicies that clusters like this one need where a namespace denies by default.
func (l *Launcher) RenderNetwork(s *spec.ClusterSpec) ([]launcher.File, error) {
	p, err := l.imagined(s)
	if err != nil {
		return nil, err
	}
	return objects.RenderNetworkPolicies(p, cmp.Or(kuberayspec.Of(p.Spec).Namespace, l.config.Namespace))
}

// imagined is the plan of a spec on a Kubernetes that has everything.
func (l *Launcher) imagined(s *spec.ClusterSpec) (*objects.Plan, error) {
	s = spec.For(s, kuberayspec.Name)
	namespace := cmp.Or(kuberayspec.Of(s).Namespace, l.config.Namespace, "default")
	return objects.NewPlan(s, namespace, l.owner, admit.All())
}
