package kuberayspec

import "github.com/rayctl/rayctl/launcher/spec"

// What the cluster file alone must know of package admit, which has one file for each admitter.

// Schedulers are the values of kuberay.scheduler beside auto and none.
var Schedulers = []string{"volcano"}

// QueueLabels put a whole RayCluster into a queue until all of it is admitted, with who does that.
var QueueLabels = map[string]string{"kueue.x-k8s.io/queue-name": "Kueue"}

// wholeBy is the label of a file by which its RayCluster is admitted as a whole, and by whom; "": none is.
func wholeBy(s *spec.ClusterSpec) (label, by string) {
	for label, by := range QueueLabels {
		if _, ok := s.Labels[label]; ok {
			return label, by
		}
	}
	return "", ""
}
