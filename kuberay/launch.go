package kuberay

import (
	"cmp"
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/gang"
	"github.com/rayctl/rayctl/kuberay/handover"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
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
		packages, err := handover.Pack(ctx, pay)
		if err != nil {
			return "", err
		}
		return l.launchKeeperless(ctx, c, p, handover.WithPacked(pay, packages))
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
		packages, err := handover.Pack(ctx, pay)
		if err != nil {
			return id, err
		}
		pay, p.Kept = handover.WithPacked(pay, packages), objects.Keepable(packages)
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
	p, err := objects.NewPlan(s, c.Namespace, l.owner, c.Served.Gangs)
	if err != nil {
		return nil, nil, err
	}
	if p, err = p.With(pay); err != nil {
		return nil, nil, err
	}
	return c, p, c.ReadToken(ctx, p)
}

// Validate finds what Launch refuses, see launcher.Validator.
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

	begun     time.Time // the keeper's Job was released
	prolonged time.Time // the Jobs' deadlines were moved last
}

// create makes everything, hands the packages over and commits. If a step fails, everything is deleted
// again. An error for which apierrors.IsAlreadyExists is true means that another client launched the name first.
func (m *making) create(ctx context.Context) error {
	name := m.p.Spec.Name
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
	if undo := m.undo(context.WithoutCancel(ctx)); undo != nil {
		m.l.log.Warn("what was created could not be removed; it ends by itself", "cluster", name, "error", undo)
	}
	if ctx.Err() != nil {
		return launcher.Fail(runstate.CodeInterrupted, ctx.Err(), "", "the launch of %s was interrupted; nothing was left behind", name)
	}
	return err
}

// furnish creates what the Job owns, and the record.
func (m *making) furnish(ctx context.Context) error {
	c, p, name := m.c, m.p, m.p.Spec.Name
	secret, err := p.Secret()
	if err != nil {
		return err
	}
	rc, err := p.RayCluster()
	if err != nil {
		return err
	}
	service := p.Service()
	first, firstCtx := errgroup.WithContext(ctx)
	first.Go(func() error { return c.CreateOwn(firstCtx, api.Secrets, secret, name) })
	first.Go(func() error { return c.CreatePackages(firstCtx, p) })
	first.Go(func() error { return c.CreateOwn(firstCtx, api.Services, service, name) })
	first.Go(func() error { return c.CreateConfigMaps(firstCtx, p, p.Owned()) })
	if err := first.Wait(); err != nil {
		return err
	}
	// Nothing that takes room exists before its Job counts towards its deadline, see objects.Provisional: the client may be killed at any moment.
	m.begun, m.prolonged = time.Now(), time.Now()
	if !c.KueueReleases(ctx, p) {
		if err := c.Unsuspend(ctx, p.Spec.Name); err != nil {
			return err
		}
	}
	next, nextCtx := errgroup.WithContext(ctx)
	next.Go(func() error {
		return c.AfterLeftovers(nextCtx, api.RayClusters, rc.Name, name, func() error { return m.l.createCluster(nextCtx, c, p, rc) })
	})
	next.Go(func() error { return c.CreateOnly(nextCtx, api.Jobs, objects.Provisional(p.RecordJob())) }) // existing finds whose name it is
	return next.Wait()
}

// undo deletes the Job, and so all that it owns, and the record if it is this launch's.
func (m *making) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	name, uid := m.p.Spec.Name, m.p.OwnerUID
	m.l.closeTransports(launcher.ID(name))
	err := m.c.DeleteJob(ctx, name, uid)
	record, recordErr := m.c.Record(ctx, name)
	if record != nil && record.Annotations[objects.AnnotationKeeper] == string(uid) {
		recordErr = m.c.DeleteJob(ctx, record.Name, record.UID)
	}
	return errors.Join(err, recordErr)
}

const undoTimeout = 30 * time.Second

// Render returns what Launch would create, in that order, the Secret's values left out. Without a Kubernetes to ask, scheduler: auto
// is taken as that of the first one known (package gang).
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
	return objects.NewPlan(s, namespace, l.owner, gang.All())
}
