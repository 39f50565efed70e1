package objects

import (
	"cmp"

	"github.com/rayctl/rayctl/kuberay/gang"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Kueue is what Kueue does with the objects of one cluster.
type Kueue struct{ Cluster, Jobs Hold }

// Hold is whether Kueue holds an object until it has admitted it, and in which queue; "": in none, so that it is never admitted.
type Hold struct {
	Held  bool
	Queue string
}

// Obey fits the plan to what Kueue does: no gang scheduler beside it, and a queue for the Jobs of keeper and record. What no queue would ever admit is refused.
func (p *Plan) Obey(k Kueue) (err error) {
	if k.Cluster.Held {
		if p.Scheduler, err = gang.Choose(p.Spec, nil, true); err != nil {
			return err
		}
		if k.Cluster.Queue == "" {
			return p.unqueued("the cluster", "set the label "+kuberayspec.KueueQueue+" in labels to a LocalQueue of the namespace")
		}
	}
	if p.JobsHeld = k.Jobs.Held; !k.Jobs.Held {
		return nil
	}
	if p.HelperQueue = cmp.Or(p.HelperQueue, k.Jobs.Queue, k.Cluster.Queue); p.HelperQueue == "" {
		return p.unqueued("the keeper", "set kuberay.keeperQueue to a LocalQueue of the namespace")
	}
	return nil
}

func (p *Plan) unqueued(what, hint string) error {
	return launcher.Fail(runstate.CodeStartFailed, nil, hint, "%s cannot start: Kueue holds all jobs of namespace %s (manageJobsWithoutQueueName), and no queue would admit %s", p.Spec.Name, p.namespace, what)
}
