package kuberay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/rayctl/rayctl/kuberay/transport"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// createCluster creates the RayCluster, and then what holds its pods together.
func (l *Launcher) createCluster(ctx context.Context, c *client, p *plan, rc *rayv1.RayCluster) error {
	created, err := c.createRayCluster(ctx, rc)
	if err != nil {
		return err
	}
	rc.UID = created.GetUID()
	return c.createGang(ctx, p, rc)
}

// createGang creates what holds a RayCluster's pods together, if its scheduler has such a thing.
func (c *client) createGang(ctx context.Context, p *plan, rc *rayv1.RayCluster) error {
	object := p.scheduler.Object(rc)
	if object == nil {
		return nil
	}
	_, err := c.create(ctx, p.scheduler.Resource(), object)
	if apierrors.IsAlreadyExists(err) {
		return nil // KubeRay's own plug-in was faster with the same
	}
	return err
}

// commit hands the packages to the keeper, and says that the client's part is done. The commit is noted before the keeper hears of it: from
// then on whoever comes, a keeper in another pod or a client that launches the name, can finish what a client that dies here has begun.
func (m *making) commit(ctx context.Context) error {
	name := m.p.spec.Name
	packages, err := pack(ctx, m.pay)
	if err != nil {
		return err
	}
	document, err := orders.Commit(packages)
	if err != nil {
		return err
	}
	if err := m.awaitKeeper(ctx); err != nil {
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
		return notReady(name, "keeper", err)
	}
	if err := m.handOver(ctx, k, packages); err != nil {
		return err
	}
	if err := m.c.noteCommit(ctx, name, document); err != nil {
		return err
	}
	both, bothCtx := errgroup.WithContext(ctx)
	both.Go(func() error { return m.c.markCommitted(bothCtx, recordName(name)) })
	both.Go(func() error {
		if err := untilAnswered(bothCtx, func() error { _, err := k.Commit(bothCtx, document); return err }); err != nil {
			return notTold(err, "the launch of %s could not be committed: %v", name, err)
		}
		return nil
	})
	return both.Wait()
}

// handOver sends the packages to a keeper that answers. From here on its lease, which each piece of a package renews, ends what is not
// committed; Kubernetes need not.
func (m *making) handOver(ctx context.Context, k *keeper.Client, packages *launcher.Packages) error {
	both, bothCtx := errgroup.WithContext(ctx)
	both.Go(func() error { return m.setLimits(bothCtx) })
	both.Go(func() error {
		if err := send(bothCtx, k, packages, m.pay); err != nil {
			return notTold(err, "the working directory could not be sent to the keeper of %s: %v", m.p.spec.Name, err)
		}
		return nil
	})
	return both.Wait()
}

// notTold is the error of a launch whose keeper could not be told something.
func notTold(err error, format string, args ...any) error {
	if errors.Is(err, keeper.ErrNotPermitted) {
		return launcher.Fail(runstate.CodePermission, err, transport.RoleHint, format, args...)
	}
	return launcher.Fail(runstate.CodeUnreachable, err, "try again", format, args...)
}

func pack(ctx context.Context, pay launcher.Payload) (*launcher.Packages, error) {
	if pay.Packages == nil {
		return &launcher.Packages{}, nil
	}
	packages, err := pay.Packages(ctx)
	if packages == nil {
		packages = &launcher.Packages{}
	}
	return packages, err
}

// send streams the packages to the keeper's disk.
func send(ctx context.Context, k *keeper.Client, packages *launcher.Packages, pay launcher.Payload) error {
	for _, f := range packages.Files {
		if err := sendFile(ctx, k, f, pay); err != nil {
			return err
		}
	}
	return nil
}

// sendTries is how often a package is sent from its beginning when the way to the keeper is cut.
const sendTries = 4

func sendFile(ctx context.Context, k *keeper.Client, f launcher.PackageFile, pay launcher.Payload) error {
	for try := 1; ; try++ {
		sent := &launcher.Meter{Progress: launcher.Progress{Text: "uploading " + path.Base(f.Path), Total: f.Size}, Report: pay.Progress}
		file, err := os.Open(f.Path)
		if err != nil {
			return fmt.Errorf("open the package: %w", err)
		}
		err = k.PutPackage(ctx, orders.PackageName(f.URI), f.Size, sent.Reader(file))
		file.Close()
		var refused *keeper.Error
		if err == nil || errors.As(err, &refused) || errors.Is(err, keeper.ErrNotPermitted) || try == sendTries || !sleep.For(ctx, time.Duration(try)*time.Second/2) {
			return err
		}
	}
}

// noteCommit puts the commit into the Secret, from where other pods and other clients read it.
func (c *client) noteCommit(ctx context.Context, name string, document keeper.Commit) error {
	text, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("encode the commit: %w", err)
	}
	return patiently(ctx, func() error { return c.note(ctx, name, map[string]string{commitKey: string(text)}) })
}

// annotationCommitted marks the record of a launch that was committed: its pod may never have reached the keeper, and the Secret's note of the commit ends with
// the keeper's Job.
const annotationCommitted = "rayctl.io/committed"

// markCommitted notes the commit on the record. A record that somebody has deleted needs none.
func (c *client) markCommitted(ctx context.Context, record string) error {
	mark := map[string]any{"metadata": map[string]any{"annotations": map[string]string{annotationCommitted: "true"}}}
	err := patiently(ctx, func() error { return c.patchJob(ctx, record, mark) })
	if apierrors.IsNotFound(err) {
		return nil
	}
	return explain(err, "patch", "jobs.batch", c)
}

// keeperPatience is how long a keeper's container may take from running to answering.
const keeperPatience = time.Minute

// untilAnswered repeats a call that failed because nobody listens yet, or the way broke; other refusals are final.
func untilAnswered(ctx context.Context, call func() error) error {
	ctx, cancel := context.WithTimeout(ctx, keeperPatience)
	defer cancel()
	pause := 50 * time.Millisecond
	for {
		err := call()
		var refused *keeper.Error
		if err == nil || errors.As(err, &refused) || errors.Is(err, keeper.ErrNotPermitted) || errors.Is(err, launcher.ErrNotFound) || launcher.ExitCode(err) == runstate.CodePermission {
			return err
		}
		if !sleep.For(ctx, pause) {
			return err
		}
		pause = min(2*pause, time.Second)
	}
}

// awaitPods watches pods from the beginning until the condition holds.
func (c *client) awaitPods(ctx context.Context, selector string, cond watchtools.ConditionFunc) error {
	// An informer that may not list tries for ever, and says nothing.
	if _, err := c.core.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: 1}); err != nil {
		return explain(err, "list", "pods", c)
	}
	lw := cache.NewFilteredListWatchFromClient(c.core.CoreV1().RESTClient(), "pods", c.namespace, func(o *metav1.ListOptions) { o.LabelSelector = selector })
	_, err := watchtools.UntilWithSync(ctx, lw, &corev1.Pod{}, nil, cond)
	return err
}

func keeperSelector(name string) string {
	return labelName + "=" + name + "," + labelRole + "=" + roleKeeper
}

// awaitGone waits until a Job that is being deleted has vanished.
func (c *client) awaitGone(ctx context.Context, name string) error {
	lw := cache.NewListWatchFromClient(c.core.BatchV1().RESTClient(), "jobs", c.namespace, fields.OneTermEqualSelector("metadata.name", name))
	gone := func(store cache.Store) (bool, error) { return len(store.ListKeys()) == 0, nil }
	_, err := watchtools.UntilWithSync(ctx, lw, nil, gone, func(event watch.Event) (bool, error) { return event.Type == watch.Deleted, nil })
	return explain(err, "watch", "jobs.batch", c)
}
