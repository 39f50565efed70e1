package kuberay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Resources of the objects that Launch creates.
var (
	jobs     = batchv1.SchemeGroupVersion.WithResource("jobs")
	secrets  = corev1.SchemeGroupVersion.WithResource("secrets")
	services = corev1.SchemeGroupVersion.WithResource("services")
)

// Launch creates the cluster and commits it, see launcher.Launcher. Packages are made before anything is created: however long that takes, it
// holds no room, and no lease runs out.
func (l *Launcher) Launch(ctx context.Context, s *spec.ClusterSpec, pay launcher.Payload) (launcher.ID, error) {
	s = spec.For(s, spec.LauncherKubeRay)
	c, p, err := l.planned(ctx, s, pay)
	if err != nil {
		return "", err
	}
	if s.KubeRay.Keeper == keeperNone {
		packages, err := pack(ctx, pay)
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
		if err := c.requireQueue(ctx, p); err != nil {
			return id, err
		}
		packages, err := pack(ctx, pay)
		if err != nil {
			return id, err
		}
		pay, p.kept = withPacked(pay, packages), keepable(packages)
		err = (&making{l: l, c: c, p: p, pay: pay}).create(ctx)
		if !apierrors.IsAlreadyExists(err) {
			return id, err
		}
	}
}

// planned is what Launch makes of a spec, with the namespace that it goes to.
func (l *Launcher) planned(ctx context.Context, s *spec.ClusterSpec, pay launcher.Payload) (*client, *plan, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, nil, err
	}
	p, err := newPlan(s, c.namespace, l.owner, c.served.gangs)
	if err != nil {
		return nil, nil, err
	}
	if p, err = p.with(pay); err != nil {
		return nil, nil, err
	}
	return c, p, c.readToken(ctx, p)
}

// Validate finds what Launch refuses, see launcher.Validator.
func (l *Launcher) Validate(ctx context.Context, s *spec.ClusterSpec, pay launcher.Payload) error {
	c, p, err := l.planned(ctx, spec.For(s, spec.LauncherKubeRay), pay)
	if err != nil {
		return err
	}
	if err := c.requireQueue(ctx, p); err != nil {
		return err
	}
	if _, err = c.tryObjects(ctx, p); outOfQuota(err) {
		return nil // by what is there under the name, perhaps
	}
	return err
}

// withPacked is the payload with its packages made, once.
func withPacked(pay launcher.Payload, packages *launcher.Packages) launcher.Payload {
	pay.Packages = func(context.Context) (*launcher.Packages, error) { return packages, nil }
	return pay
}

// making is one launch under way.
type making struct {
	l   *Launcher
	c   *client
	p   *plan
	pay launcher.Payload

	begun     time.Time // the keeper's Job was released
	prolonged time.Time // the Jobs' deadlines were moved last
}

// create makes everything, hands the packages over and commits. Whatever fails, nothing stays. An error that
// apierrors.IsAlreadyExists tells that somebody else was first.
func (m *making) create(ctx context.Context) error {
	name := m.p.spec.Name
	job, err := m.c.create(ctx, jobs, provisional(m.p.keeperJob()))
	if err != nil {
		return err
	}
	m.p.ownerUID = job.GetUID()
	m.l.setToken(launcher.ID(name), m.p.token)
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
	c, p, name := m.c, m.p, m.p.spec.Name
	secret, err := p.secret()
	if err != nil {
		return err
	}
	rc, err := p.rayCluster()
	if err != nil {
		return err
	}
	service := p.service()
	first, firstCtx := errgroup.WithContext(ctx)
	first.Go(func() error { return c.createOwn(firstCtx, secrets, secret, name) })
	first.Go(func() error { return c.createPackages(firstCtx, p) })
	first.Go(func() error { return c.createOwn(firstCtx, services, service, name) })
	first.Go(func() error { return c.createConfigMaps(firstCtx, p, p.owned()) })
	if err := first.Wait(); err != nil {
		return err
	}
	// Nothing that takes room exists before its Job counts towards its deadline, see provisional: the client may be killed at any moment.
	m.begun, m.prolonged = time.Now(), time.Now()
	if err := c.unsuspend(ctx, p.spec.Name); err != nil {
		return err
	}
	next, nextCtx := errgroup.WithContext(ctx)
	next.Go(func() error {
		return c.afterLeftovers(nextCtx, rayClusters, rc.Name, name, func() error { return m.l.createCluster(nextCtx, c, p, rc) })
	})
	next.Go(func() error { return c.createOnly(nextCtx, jobs, provisional(p.recordJob())) }) // whose its name is, existing says
	return next.Wait()
}

// undo deletes the Job, and so all that it owns, and the record if it is this launch's.
func (m *making) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	name, uid := m.p.spec.Name, m.p.ownerUID
	m.l.closeTransports(launcher.ID(name))
	err := m.c.deleteJob(ctx, name, uid)
	record, recordErr := m.c.record(ctx, name)
	if record != nil && record.Annotations[annotationKeeper] == string(uid) {
		recordErr = m.c.deleteJob(ctx, record.Name, record.UID)
	}
	return errors.Join(err, recordErr)
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
	o := metav1.DeleteOptions{PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &uid}}
	err := c.core.BatchV1().Jobs(c.namespace).Delete(ctx, name, o)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return explain(err, "delete", "jobs.batch", c)
}
