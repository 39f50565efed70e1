package observe

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// What the tools that make nodes report about pods without a node, in events of the pods of type Normal: the cluster autoscaler (cluster-autoscaler 1.34,
// processors/status/eventing_scale_up_processor.go) and Karpenter (1.x, pkg/controllers/provisioning/scheduling/events.go).
const (
	triggeredScaleUp = "TriggeredScaleUp"
	nominated        = "Nominated"
	noScaleUp        = "NotTriggerScaleUp"
)

// NodesBeingMade is the reason of pods for which nodes are made. It passes by itself, however long that takes.
const NodesBeingMade = "NodesBeingMade"

// usualEvents are those of all pods that start, of which nothing is learned here.
var usualEvents = []string{"Scheduled", "Pulling", "Pulled", "Created", "Started", "Killing"}

// withNodesMade adds to the reason of pods without a node whether nodes are made for them: the newest word for each pod counts.
func (o *Snapshot) withNodesMade(pending []*corev1.Pod, r runstate.Reason) runstate.Reason {
	var made int
	var last, refused *corev1.Event
	for _, p := range pending {
		e := o.event("Pod", p.UID, triggeredScaleUp, nominated, noScaleUp)
		switch {
		case e == nil:
		case e.Reason == noScaleUp:
			refused = later(refused, e)
		default:
			made++
			last = later(last, e)
		}
	}
	switch {
	case last != nil:
		return runstate.Reason{Code: NodesBeingMade, Message: fmt.Sprintf("nodes are being made for %d of %d pods that have none: %s", made, len(pending), last.Message)}
	case refused != nil:
		r.Message += "; no node is made for it: " + refused.Message
		r.Hint = "compare what the groups ask for with the node groups that the autoscaler may make"
	}
	return r
}

func later(a, b *corev1.Event) *corev1.Event {
	if a == nil || eventTime(a).Before(eventTime(b)) {
		return b
	}
	return a
}
