package kuberay

import (
	"context"
	"errors"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// launchKeeperless creates a cluster without a keeper's pod (kuberay.keeper: none); the keeper runs in this process. It creates the RayCluster first, because that owns
// the Secret, for which its pods wait, and the gang's object.
func (l *Launcher) launchKeeperless(ctx context.Context, c *api.Client, p *objects.Plan, pay launcher.Payload) (launcher.ID, error) {
	id := launcher.ID(p.Spec.Name)
	if err := c.RequireQueue(ctx, p); err != nil {
		return "", err
	}
	rc, err := p.RayCluster()
	if err != nil {
		return "", err
	}
	created, err := c.CreateRayCluster(ctx, rc, p.Newer())
	if apierrors.IsAlreadyExists(err) {
		return "", launcher.Fail(runstate.CodeSpec, launcher.ErrConflict, "choose another name; another client cannot take over a cluster without a keeper", "a RayCluster named %s exists", id)
	}
	if err != nil {
		return "", err
	}
	rc.UID = created.GetUID()
	l.setToken(id, p.Token)
	if err = l.keepHere(ctx, c, p, pay, rc); err == nil {
		return id, nil
	}
	undo := c.DeleteCluster(context.WithoutCancel(ctx), id, rc.UID)
	if undo != nil {
		l.log.Warn("what was created could not be removed: `rayctl down` tries again", "cluster", id, "error", undo)
	}
	if ctx.Err() != nil {
		return "", launcher.InterruptedLaunch(id, ctx.Err(), launcher.Left(undo, "its RayCluster in namespace %s", c.Namespace))
	}
	return "", err
}

// keepHere creates the objects that the RayCluster owns. If the cluster file has a job, it also starts the keeper on this machine.
func (l *Launcher) keepHere(ctx context.Context, c *api.Client, p *objects.Plan, pay launcher.Payload, rc *rayv1.RayCluster) error {
	secret, err := p.Secret()
	if err != nil {
		return err
	}
	secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rc, rayv1.GroupVersion.WithKind("RayCluster"))}
	if err := c.CreateOnly(ctx, api.Secrets, secret); err != nil {
		return err
	}
	if err := c.CreateConfigMaps(ctx, p, []metav1.OwnerReference{objects.OwnedBy(rc)}); err != nil {
		return err
	}
	if err := c.CreateGang(ctx, p, rc); err != nil {
		return err
	}
	if err := awaitAdmission(ctx, c, rc.Name); err != nil {
		return err
	}
	if p.Spec.Job.Entrypoint == "" {
		l.log.Warn("without a keeper no limit of `lifetime` applies: the cluster stays until `rayctl down`", "cluster", rc.Name)
		return nil
	}
	l.log.Warn("without a keeper the run needs this client: if it is killed or detaches the cluster stays until `rayctl down`", "cluster", rc.Name)
	r, err := startResident(ctx, p, func(ctx context.Context) (*launcher.Endpoint, error) {
		return l.Dial(ctx, launcher.ID(rc.Name), launcher.Dashboard)
	})
	if err != nil {
		return err
	}
	packages, err := packPayload(ctx, pay)
	if err == nil {
		err = r.Commit(packages)
	}
	if err != nil {
		r.Abandon()
		return err
	}
	l.mu.Lock()
	l.residents[launcher.ID(rc.Name)] = r
	l.mu.Unlock()
	go l.afterResident(context.WithoutCancel(ctx), c, launcher.ID(rc.Name), rc.UID, r)
	return nil
}

// awaitAdmission waits until the operator has handled the RayCluster. It returns nil, too, if the operator does nothing for observe.Silence. A refusal that does not
// pass by waiting is an error.
func awaitAdmission(ctx context.Context, c *api.Client, name string) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	live, err := observe.NewOwnCache(watching, c, name)
	if err != nil {
		return err
	}
	enough := time.After(observe.Silence)
	for {
		o := live.Snapshot()
		if err := o.Refused(name); err != nil || o.Admitted() {
			return err
		}
		select {
		case <-ctx.Done():
			return api.Interrupted(ctx.Err(), name)
		case <-enough:
			return nil
		case <-live.Changed:
		}
	}
}

// afterResident deletes the cluster when its keeper has ended, and ends the keeper when somebody else deletes the RayCluster.
func (l *Launcher) afterResident(ctx context.Context, c *api.Client, id launcher.ID, uid types.UID, r *residentKeeper) {
	watching, cancel := context.WithCancel(ctx)
	go l.endWithCluster(watching, c, id)
	r.Wait()
	cancel()
	if err := api.Patiently(ctx, func() error { return c.DeleteCluster(ctx, id, uid) }); err != nil {
		l.log.Warn("the cluster could not be deleted: `rayctl down` tries again", "cluster", id, "error", err)
	}
	close(r.Gone)
}

// endWithCluster asks this client's keeper to end when its RayCluster is deleted; otherwise the keeper would wait for a head. It returns when the keeper has accepted
// the request, or has ended.
func (l *Launcher) endWithCluster(ctx context.Context, c *api.Client, id launcher.ID) {
	for {
		err := c.AwaitDeleted(ctx, id)
		if err == nil {
			break
		}
		l.log.Debug("the RayCluster cannot be watched", "cluster", id, "error", err)
		if !sleep.For(ctx, time.Second) {
			return
		}
	}
	for l.ask(ctx, c, id, clusterDeleted(c.Namespace, id)) != nil && sleep.For(ctx, time.Second) {
		continue // the keeper does not listen yet, or has just ended
	}
}

// keptHere waits for the last state of this client's keeper; nil if the keeper left none, or if ctx ends first.
func keptHere(ctx context.Context, r *residentKeeper) *runstate.State {
	select {
	case <-r.Gone:
		return r.Final
	case <-ctx.Done():
		return nil
	}
}

// resident is this client's keeper of the cluster; nil where there is none.
func (l *Launcher) resident(id launcher.ID) *residentKeeper {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.residents[id]
}

// endKeeperless ends a cluster that has no keeper's Job. It asks the keeper in this process if there is one; otherwise it deletes the RayCluster. It does nothing if a
// Job owns the RayCluster: then Kubernetes is deleting it already.
func (l *Launcher) endKeeperless(ctx context.Context, c *api.Client, id launcher.ID, end launcher.End) error {
	if r := l.resident(id); r != nil {
		if err := l.ask(ctx, c, id, end); err == nil || errors.Is(err, launcher.ErrNotFound) {
			return nil
		}
	}
	rc, err := c.GetCluster(ctx, id)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return api.Explain(err, "get", api.RayClusters.GroupResource().String(), c)
	case len(rc.GetOwnerReferences()) > 0:
		return nil
	}
	return c.DeleteCluster(ctx, id, rc.GetUID())
}
