package objects

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/manifest"
	"github.com/rayctl/rayctl/launcher"
)

// Render are the objects of a plan as files, in the order of their making, the Secret's values left out.
func Render(p *Plan) ([]launcher.File, error) {
	objects, err := p.Objects()
	if err != nil {
		return nil, err
	}
	var files []launcher.File
	for _, o := range objects {
		if o.Object == nil {
			continue
		}
		content, err := applicable(o.Object)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", o.name, err)
		}
		if _, isCluster := o.Object.(*rayv1.RayCluster); isCluster {
			manifest.SetNewer(content, p.Newer())
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

// Part is an object, and its file.
type Part struct {
	name   string
	Object runtime.Object
}

// Objects are all that a launch creates, as furnish and keepHere do.
func (p *Plan) Objects() ([]Part, error) {
	secret, err := p.Secret()
	if err != nil {
		return nil, err
	}
	rc, err := p.RayCluster()
	if err != nil {
		return nil, err
	}
	var shared []Part
	for _, m := range p.ConfigMapsOf(p.Owned()) {
		shared = append(shared, Part{"configmap-" + m.Name + ".yaml", m})
	}
	cluster, hidden, together := Part{"raycluster.yaml", rc}, Part{"secret.yaml", withoutValues(secret)}, gangPart(p.Admitter.Object(rc))
	if kuberayspec.Of(p.Spec).Keeper == KeeperNone {
		return slices.Concat([]Part{cluster, hidden}, shared, []Part{together}), nil
	}
	begin, rest := []Part{{"job.yaml", p.KeeperJob()}, hidden, {"service.yaml", p.Service()}}, []Part{cluster, together, {"record.yaml", p.RecordJob()}}
	return slices.Concat(begin, shared, rest), nil
}

// gangPart has the name of the kind of object that the gang's scheduler wants; without one its Object is nil.
func gangPart(o runtime.Object) Part {
	if o == nil {
		return Part{}
	}
	return Part{strings.ToLower(o.GetObjectKind().GroupVersionKind().Kind) + ".yaml", o}
}

// withoutValues keeps the keys of what is secret or generated.
func withoutValues(s *corev1.Secret) *corev1.Secret {
	out := s.DeepCopy()
	out.StringData = map[string]string{}
	for key := range out.Data {
		switch {
		case key == setupKey || key == OrdersKey || key == SpecKey:
			out.StringData[key] = string(s.Data[key])
		case IsSecretKey(key):
			out.StringData[key] = "(left out)"
		default:
			out.StringData[key] = "(rayctl's program of this name)"
		}
	}
	out.Data = nil
	return out
}
