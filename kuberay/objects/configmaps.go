package objects

import (
	"maps"
	"slices"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
)

// ConfigMapsOf are the ConfigMaps of the file, which end with what owns the cluster.
func (p *Plan) ConfigMapsOf(owners []metav1.OwnerReference) (out []*corev1.ConfigMap) {
	for _, name := range slices.Sorted(maps.Keys(kuberayspec.Of(p.Spec).ConfigMaps)) {
		m := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: p.meta(name), Data: kuberayspec.Of(p.Spec).ConfigMaps[name]}
		delete(m.Labels, LabelName) // runs of one file share it
		delete(m.Annotations, AnnotationHash)
		m.OwnerReferences = owners
		out = append(out, m)
	}
	return out
}

// OwnedBy is for what several clusters may own.
func OwnedBy(rc *rayv1.RayCluster) metav1.OwnerReference {
	ref := *metav1.NewControllerRef(rc, rayv1.GroupVersion.WithKind("RayCluster"))
	ref.Controller, ref.BlockOwnerDeletion = nil, nil
	return ref
}
