package kuberay

import (
	"context"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// queue is where the plan's gang waits; "" where it waits in none.
func (p *plan) queue() string {
	if p.spec == nil {
		return p.scheduler.Queue(&rayv1.RayCluster{})
	}
	rc, err := p.rayCluster()
	if err != nil {
		return "" // said where it is created
	}
	return p.scheduler.Queue(rc)
}

// requireQueue refuses a launch into a queue that does not exist, of which Volcano itself would say nothing at all. Who may not look at queues,
// which are no namespace's, finds out by waiting.
func (c *client) requireQueue(ctx context.Context, p *plan) error {
	name := p.queue()
	if name == "" {
		return nil
	}
	_, err := p.scheduler.QueueState(ctx, c.dynamic, name)
	if apierrors.IsNotFound(err) {
		return launcher.Fail(runstate.CodeStartFailed, err, "change kuberay.queue to one that `kubectl get queues."+p.scheduler.Resource().Group+"` lists", "%s cannot start: %s has no queue %s", p.spec.Name, p.scheduler.Title(), name)
	}
	return nil
}
