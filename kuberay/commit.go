package kuberay

import (
	"context"
	"slices"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/kuberay/result"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// createCluster creates the RayCluster, and then what holds its pods together.
func (l *Launcher) createCluster(ctx context.Context, c *api.Client, p *objects.Plan, rc *rayv1.RayCluster) error {
	created, err := c.CreateRayCluster(ctx, rc, p.Newer())
	if err != nil {
		return err
	}
	rc.UID = created.GetUID()
	l.keepHead(rc)
	if held, _, _ := unstructured.NestedBool(created.Object, "spec", "suspend"); held && p.Spec.Head.Early {
		_, by := admit.QueueOf(created)
		r := observe.HeadHeld(c.Namespace, by)
		return launcher.Fail(runstate.CodeStartFailed, nil, r.Hint, "%s cannot start: %s", rc.Name, r.Message)
	}
	return c.CreateGang(ctx, p, rc)
}

// commit sends the packages and the commit to the keeper. The commit is written to the Secret first: if this client dies in between, a keeper in
// another pod or a client that launches the same name completes it.
func (m *making) commit(ctx context.Context) error {
	name := m.p.Spec.Name
	packages, err := packPayload(ctx, m.pay)
	if err != nil {
		return err
	}
	document, err := orders.Commit(packages)
	if err != nil {
		return err
	}
	if err := m.awaitKeeper(ctx, m.admitted); err != nil {
		return err
	}
	var e *launcher.Endpoint
	if err := untilAnswered(ctx, func() error { e, err = m.l.Dial(ctx, launcher.ID(name), launcher.Keeper); return err }); err != nil {
		return err
	}
	defer e.Close()
	k := launcher.KeeperClient(e)
	defer k.Close()
	if err := untilAnswered(ctx, func() error { _, err := k.State(ctx); return err }); err != nil {
		return api.NotReady(name, "keeper", err)
	}
	if err := m.handOver(ctx, k, packages); err != nil {
		return err
	}
	if err := m.c.NoteCommit(ctx, name, document); err != nil {
		return err
	}
	both, bothCtx := errgroup.WithContext(ctx)
	both.Go(func() error { return m.c.MarkCommitted(bothCtx, objects.RecordName(name)) })
	both.Go(func() error {
		if err := untilAnswered(bothCtx, func() error { return m.commitTo(bothCtx, k, document) }); err != nil {
			return notTold(err, "the launch of %s could not be committed: %v", name, err)
		}
		return nil
	})
	return both.Wait()
}

// commitTo sends the commit. Another client of the same name sends the one that is noted, too: a short run may be over, and its keeper gone, before this
// client's arrives.
func (m *making) commitTo(ctx context.Context, k *keeper.Client, document keeper.Commit) error {
	_, err := k.Commit(ctx, document)
	if err != nil && m.isOver(ctx) {
		return nil
	}
	return err
}

// isOver reports whether the record has the result of a run that this launch's keeper committed.
func (m *making) isOver(ctx context.Context) bool {
	record, err := m.c.Record(ctx, m.p.Spec.Name)
	if err != nil || record == nil || record.Annotations[objects.AnnotationKeeper] != string(m.p.OwnerUID) {
		return false
	}
	st, err := result.Read(ctx, m.c, record)
	return err == nil && st != nil && st.Committed
}

// handOver sends the packages to a keeper that answers. From here on its lease, which each piece of a package renews, ends what is not
// committed; Kubernetes need not.
func (m *making) handOver(ctx context.Context, k *keeper.Client, packages *launcher.Packages) error {
	both, bothCtx := errgroup.WithContext(ctx)
	both.Go(func() error { return m.setLimits(bothCtx) })
	both.Go(func() error {
		if err := sendPackages(bothCtx, k, packages, m.pay); err != nil {
			return notTold(err, "the working directory could not be sent to the keeper of %s: %v", m.p.Spec.Name, err)
		}
		return nil
	})
	return both.Wait()
}

// keepPayload notes what a cluster is launched with, for giveAgain.
func (l *Launcher) keepPayload(id launcher.ID, pay launcher.Payload) {
	pay.Progress = nil // that was the launch's
	l.mu.Lock()
	defer l.mu.Unlock()
	l.payloads[id] = pay
}

// launchedHere reports whether this process has launched the cluster.
func (l *Launcher) launchedHere(id launcher.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, launched := l.payloads[id]
	return launched
}

// giveAgain sends a keeper the packages that it misses, if this client has launched its cluster. Packing again is quick: packages are cached.
func (l *Launcher) giveAgain(ctx context.Context, id launcher.ID, k *keeper.Client, missing []string) error {
	l.mu.Lock()
	pay, launched := l.payloads[id]
	l.mu.Unlock()
	if len(missing) == 0 || !launched {
		return nil
	}
	packages, err := packPayload(ctx, pay)
	if err != nil {
		return err
	}
	again := &launcher.Packages{}
	for _, f := range packages.Files {
		if slices.Contains(missing, orders.PackageName(f.URI)) {
			again.Files = append(again.Files, f)
		}
	}
	return sendPackages(ctx, k, again, pay)
}
