package kuberay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/kuberay/gang"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Render returns what Launch would create, in that order, the Secret's values left out. Without a Kubernetes to ask, scheduler: auto
// is taken as Volcano.
func (l *Launcher) Render(s *spec.ClusterSpec) ([]launcher.File, error) {
	s = spec.For(s, spec.LauncherKubeRay)
	namespace := cmp.Or(s.KubeRay.Namespace, l.config.Namespace, "default")
	p, err := newPlan(s, namespace, l.owner, gang.All())
	if err != nil {
		return nil, err
	}
	return renderFiles(p)
}

// renderFiles are the objects of a plan as files, in the order of their making, the Secret's values left out.
func renderFiles(p *plan) ([]launcher.File, error) {
	objects, err := p.objects()
	if err != nil {
		return nil, err
	}
	var files []launcher.File
	for _, o := range objects {
		if o.object == nil {
			continue
		}
		content, err := applicable(o.object)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", o.name, err)
		}
		text, err := kyaml.Marshal(content)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", o.name, err)
		}
		files = append(files, launcher.File{Name: o.name, Content: text})
	}
	return files, nil
}

// applicable is an object as `kubectl apply` takes it: without what only the API server fills in. An owner that does not exist yet has no UID, and
// so is no owner for the API server.
func applicable(object runtime.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	o := &unstructured.Unstructured{Object: content}
	owners := slices.DeleteFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == "" })
	o.SetOwnerReferences(nil)
	if len(owners) > 0 {
		o.SetOwnerReferences(owners)
	}
	withoutNulls(content)
	return content, nil
}

// withoutNulls removes what nobody has set, such as creation times and the maps of KubeRay's types that are not optional: the API server refuses
// a null where its schema wants an object.
func withoutNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, inner any) bool { return inner == nil })
		for _, inner := range v {
			withoutNulls(inner)
		}
	case []any:
		for _, inner := range v {
			withoutNulls(inner)
		}
	}
}

// part is an object, and its file.
type part struct {
	name   string
	object runtime.Object
}

// objects are all that a launch creates, as furnish and keepHere do.
func (p *plan) objects() ([]part, error) {
	secret, err := p.secret()
	if err != nil {
		return nil, err
	}
	rc, err := p.rayCluster()
	if err != nil {
		return nil, err
	}
	var shared []part
	for _, m := range p.configMapsOf(p.owned()) {
		shared = append(shared, part{"configmap-" + m.Name + ".yaml", m})
	}
	cluster, hidden, together := part{"raycluster.yaml", rc}, part{"secret.yaml", withoutValues(secret)}, part{"podgroup.yaml", p.scheduler.Object(rc)}
	if p.spec.KubeRay.Keeper == keeperNone {
		return slices.Concat([]part{cluster, hidden}, shared, []part{together}), nil
	}
	begin, rest := []part{{"job.yaml", p.keeperJob()}, hidden, {"service.yaml", p.service()}}, []part{cluster, together, {"record.yaml", p.recordJob()}}
	return slices.Concat(begin, shared, rest), nil
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
