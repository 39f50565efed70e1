package objects

import (
	"cmp"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Holds is what an admitter that suspends objects does with those of one cluster.
type Holds struct {
	By            admit.Info
	Cluster, Jobs Hold
	// Resizable: it takes the RayCluster, which has an autoscaler, with its annotation for that alone.
	Resizable bool
}

// Hold is whether an object is suspended until it is admitted, and in which queue; "": in none, so that it is never admitted.
type Hold struct {
	Held  bool
	Queue string
}

// Obey fits the plan to what holds its objects: nothing else admits the cluster's pods, and the Jobs of keeper and record have a queue. What no queue would ever
// admit is refused.
func (p *Plan) Obey(h Holds) (err error) {
	if h.Resizable {
		p.Resizable = h.By.Resizable
	}
	if p.ClusterHeld, p.HeldIn = h.Cluster.Held, h.Cluster.Queue; p.ClusterHeld {
		if p.Admitter, err = admit.Choose(p.Spec, nil, h.By); err != nil {
			return err
		}
		if h.Cluster.Queue == "" {
			return p.unqueued(h.By, "the cluster", "set the label "+h.By.QueueLabel+" in labels to a "+h.By.KindOfQueue+" of the namespace")
		}
	}
	if p.JobsHeld = h.Jobs.Held; !h.Jobs.Held {
		return nil
	}
	if p.HelperQueue = cmp.Or(p.HelperQueue, h.Jobs.Queue, h.Cluster.Queue); p.HelperQueue == "" {
		return p.unqueued(h.By, "the keeper", "set kuberay.keeperQueue to a "+h.By.KindOfQueue+" of the namespace")
	}
	return nil
}

func (p *Plan) unqueued(by admit.Info, what, hint string) error {
	return launcher.Fail(runstate.CodeStartFailed, nil, hint, "%s cannot start: %s holds all jobs of namespace %s (%s), and no queue would admit %s", p.Spec.Name, by.Title, p.namespace, by.HoldsAll, what)
}
