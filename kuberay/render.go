package kuberay

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Render returns what Launch would create, in that order, the Secret's values left out. Without a Kubernetes to ask, scheduler: auto
// is taken as Volcano.
func (l *Launcher) Render(s *spec.ClusterSpec) ([]launcher.File, error) {
	s = prepare(s)
	namespace := first(s.KubeRay.Namespace, l.config.Namespace, "default")
	p, err := newPlan(s, namespace, l.owner, true)
	if err != nil {
		return nil, err
	}
	secret, err := p.secret()
	if err != nil {
		return nil, err
	}
	rc, err := p.rayCluster()
	if err != nil {
		return nil, err
	}
	type named struct {
		name   string
		object runtime.Object
	}
	objects := []named{{"job.yaml", p.keeperJob()}, {"secret.yaml", withoutValues(secret)}, {"service.yaml", p.service()}}
	for _, m := range p.configMapsOf(p.owned()) {
		objects = append(objects, named{"configmap-" + m.Name + ".yaml", m})
	}
	objects = append(objects, named{"raycluster.yaml", rc}, named{"podgroup.yaml", p.scheduler.gang(rc)}, named{"record.yaml", p.recordJob()})
	var files []launcher.File
	for _, o := range objects {
		if o.object == nil {
			continue
		}
		text, err := kyaml.Marshal(o.object)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", o.name, err)
		}
		files = append(files, launcher.File{Name: o.name, Content: text})
	}
	return files, nil
}

// withoutValues keeps the keys of what is secret or generated.
func withoutValues(s *corev1.Secret) *corev1.Secret {
	out := s.DeepCopy()
	out.StringData = map[string]string{}
	for key := range out.Data {
		switch {
		case key == setupKey || key == ordersKey || key == specKey:
			out.StringData[key] = string(s.Data[key])
		case key == tokenKey || strings.HasPrefix(key, envPrefix):
			out.StringData[key] = "(left out)"
		default:
			out.StringData[key] = "(rayctl's program of this name)"
		}
	}
	out.Data = nil
	return out
}
