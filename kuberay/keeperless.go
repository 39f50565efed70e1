package kuberay

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// keeperNone is the value of kuberay.keeper for users who may not create Jobs.
const keeperNone = "none"

// launchKeeperless creates a cluster that this client keeps. RayCluster first: it owns the Secret, for which its pods wait, and the gang.
func (l *Launcher) launchKeeperless(ctx context.Context, c *client, p *plan, pay launcher.Payload) (launcher.ID, error) {
	id := launcher.ID(p.spec.Name)
	if err := c.requireQueue(ctx, p); err != nil {
		return "", err
	}
	rc, err := p.rayCluster()
	if err != nil {
		return "", err
	}
	created, err := c.createRayCluster(ctx, rc)
	if apierrors.IsAlreadyExists(err) {
		return "", launcher.Fail(runstate.CodeSpec, launcher.ErrConflict, "choose another name; another client cannot take over a cluster without a keeper", "a RayCluster named %s exists", id)
	}
	if err != nil {
		return "", err
	}
	rc.UID = created.GetUID()
	l.setToken(id, p.token)
	if err = l.keepHere(ctx, c, p, pay, rc); err == nil {
		return id, nil
	}
	if undo := c.deleteCluster(context.WithoutCancel(ctx), id, rc.UID); undo != nil {
		l.log.Warn("what was created could not be removed: `rayctl down` tries again", "cluster", id, "error", undo)
	}
	if ctx.Err() != nil {
		return "", launcher.Fail(runstate.CodeInterrupted, ctx.Err(), "", "the launch of %s was interrupted; nothing was left behind", id)
	}
	return "", err
}

// keepHere creates what the RayCluster owns, and starts the keeper where there is a job to keep.
func (l *Launcher) keepHere(ctx context.Context, c *client, p *plan, pay launcher.Payload, rc *rayv1.RayCluster) error {
	secret, err := p.secret()
	if err != nil {
		return err
	}
	secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rc, rayv1.GroupVersion.WithKind("RayCluster"))}
	if err := c.createOnly(ctx, secrets, secret); err != nil {
		return err
	}
	if err := c.createConfigMaps(ctx, p, []metav1.OwnerReference{ownedBy(rc)}); err != nil {
		return err
	}
	if err := c.createGang(ctx, p, rc); err != nil {
		return err
	}
	if err := c.awaitAdmission(ctx, rc.Name); err != nil {
		return err
	}
	if p.spec.Job.Entrypoint == "" {
		l.log.Warn("without a keeper no limit of `lifetime` counts: the cluster stays until `rayctl down`", "cluster", rc.Name)
		return nil
	}
	l.log.Warn("without a keeper the run needs this client: if it is killed or detaches the cluster stays until `rayctl down`", "cluster", rc.Name)
	r, err := startResident(ctx, p, func(ctx context.Context) (*launcher.Endpoint, error) {
		return l.Dial(ctx, launcher.ID(rc.Name), launcher.Dashboard)
	})
	if err != nil {
		return err
	}
	packages, err := pack(ctx, pay)
	if err == nil {
		err = r.commit(packages)
	}
	if err != nil {
		r.abandon()
		return err
	}
	l.mu.Lock()
	l.residents[launcher.ID(rc.Name)] = r
	l.mu.Unlock()
	go l.afterResident(context.WithoutCancel(ctx), c, launcher.ID(rc.Name), rc.UID, r)
	return nil
}

// awaitAdmission waits until the operator has looked at the RayCluster, or seems not to run; a refusal that cannot pass is an error.
func (c *client) awaitAdmission(ctx context.Context, name string) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	live, err := c.newObjectCache(watching, name)
	if err != nil {
		return err
	}
	enough := time.After(silence)
	for {
		o := live.snapshot()
		if err := o.refused(name); err != nil || o.admitted() {
			return err
		}
		select {
		case <-ctx.Done():
			return interrupted(ctx.Err(), name)
		case <-enough:
			return nil
		case <-live.changed:
		}
	}
}

// afterResident deletes the cluster when its keeper has ended.
func (l *Launcher) afterResident(ctx context.Context, c *client, id launcher.ID, uid types.UID, r *resident) {
	r.wait()
	if err := patiently(ctx, func() error { return c.deleteCluster(ctx, id, uid) }); err != nil {
		l.log.Warn("the cluster could not be deleted: `rayctl down` tries again", "cluster", id, "error", err)
	}
	close(r.gone)
}

// bereaved waits for the end of this client's keeper, whose RayCluster is gone: where somebody else deleted it, it is told so. nil if ctx ends first.
func (l *Launcher) bereaved(ctx context.Context, c *client, id launcher.ID, r *resident) *runstate.State {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for asking.Err() == nil && l.ask(asking, c, id, clusterDeleted(c, id)) != nil && sleep.For(asking, time.Second) {
			continue // it does not listen yet, or has just ended
		}
	}()
	select {
	case <-r.gone:
		return r.final
	case <-ctx.Done():
		return nil
	}
}

// resident is this client's keeper of the cluster; nil where there is none.
func (l *Launcher) resident(id launcher.ID) *resident {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.residents[id]
}

// deleteCluster deletes a RayCluster with its pods; one that is gone, or is another one by now, is no error.
func (c *client) deleteCluster(ctx context.Context, id launcher.ID, uid types.UID) error {
	foreground := metav1.DeletePropagationForeground
	o := metav1.DeleteOptions{PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &uid}}
	err := c.dynamic.Resource(rayClusters).Namespace(c.namespace).Delete(ctx, string(id), o)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return explain(err, "delete", rayClusters.GroupResource().String(), c)
}

// endKeeperless ends a cluster that has no keeper's Job: by its keeper, if that is this client's, else by deleting it. One that a Job owned is
// on its way already.
func (l *Launcher) endKeeperless(ctx context.Context, c *client, id launcher.ID, end launcher.End) error {
	if r := l.resident(id); r != nil {
		if err := l.ask(ctx, c, id, end); err == nil || errors.Is(err, launcher.ErrNotFound) {
			return nil
		}
	}
	rc, err := c.getCluster(ctx, id)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return explain(err, "get", rayClusters.GroupResource().String(), c)
	case len(rc.GetOwnerReferences()) > 0:
		return nil
	}
	return c.deleteCluster(ctx, id, rc.GetUID())
}

// result is the outcome of a cluster that this client kept. It lives as long as this client does.
func (r *resident) result(id launcher.ID, namespace string) (*launcher.Result, error) {
	select {
	case <-r.gone:
	default:
		return nil, launcher.NotEnded(id)
	}
	info := launcher.LogInfo{}
	if r.final != nil && r.final.Log != nil {
		info.Bytes, info.Missing = r.final.Log.Bytes, r.final.Log.Missing
	}
	s := finalStatus(id, namespace, &snapshot{now: time.Now().UTC()}, r.final)
	s.Ours = true
	return launcher.NewResult(s, info, r.openLog), nil
}
