package kuberay

import (
	"cmp"

	"github.com/rayctl/rayctl/kuberay/gang"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Render returns what Launch would create, in that order, the Secret's values left out. Without a Kubernetes to ask, scheduler: auto
// is taken as Volcano.
func (l *Launcher) Render(s *spec.ClusterSpec) ([]launcher.File, error) {
	s = spec.For(s, kuberayspec.Name)
	namespace := cmp.Or(kuberayspec.Of(s).Namespace, l.config.Namespace, "default")
	p, err := objects.NewPlan(s, namespace, l.owner, gang.All())
	if err != nil {
		return nil, err
	}
	return objects.Render(p)
}
