package objects

import (
	"encoding/json"
	"fmt"
	"slices"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/spec"
)

// patchedTemplate applies a group's own patch, as `kubectl patch` does: lists of containers and volumes merge by name.
func patchedTemplate(t *corev1.PodTemplateSpec, g spec.NodeGroup) (*corev1.PodTemplateSpec, error) {
	where, changes := "the patch of "+g.Name, kuberayspec.Patch(g.Sections)
	if rayContainer(t).Name == headContainer {
		var err error
		if changes, err = ofHead(changes); err != nil {
			return nil, badPatch(where, err)
		}
	}
	return mergedTemplate(t, changes, where)
}

// ofHead is a group's patch for the head's pod, which has it where the head is on the group (head.on): what it changes of the workers' container is for the head's.
func ofHead(changes spec.Object) (spec.Object, error) {
	text, err := json.Marshal(changes)
	if err != nil {
		return nil, err
	}
	var out spec.Object
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	of, _ := out["spec"].(map[string]any)
	containers, _ := of["containers"].([]any)
	for _, c := range containers {
		if c, is := c.(map[string]any); is && c["name"] == workerContainer {
			c["name"] = headContainer
		}
	}
	return out, nil
}

// patchedHelper applies kuberay.keeperPatch to the pod of keeper or record. What the pod is found by, and what it runs, is out of its reach.
func (p *Plan) patchedHelper(t *corev1.PodTemplateSpec) (*corev1.PodTemplateSpec, error) {
	const where = "kuberay.keeperPatch"
	out, err := mergedTemplate(t, kuberayspec.Of(p.Spec).KeeperPatch, where)
	if err != nil {
		return nil, err
	}
	was := t.Spec.Containers[0]
	out.Spec.Containers = slices.DeleteFunc(out.Spec.Containers, func(c corev1.Container) bool { // the other pod's
		return c.Name != was.Name && (c.Name == KeeperContainer || c.Name == RecordContainer)
	})
	if len(out.Spec.Containers) == 0 || out.Spec.Containers[0].Name != was.Name {
		return nil, badPatch(where, fmt.Errorf("it removes the container %s", was.Name))
	}
	c := &out.Spec.Containers[0]
	c.Command, c.Args, c.WorkingDir, c.Ports = was.Command, was.Args, was.WorkingDir, was.Ports
	out.Spec.RestartPolicy = t.Spec.RestartPolicy
	out.Labels = Merged(out.Labels, p.roleLabels(t.Labels[LabelRole]))
	return out, nil
}

// mergedTemplate is a pod template with a strategic merge patch, and its own container still the first.
func mergedTemplate(t *corev1.PodTemplateSpec, changes spec.Object, where string) (*corev1.PodTemplateSpec, error) {
	if len(changes) == 0 {
		return t, nil
	}
	base, err := json.Marshal(t)
	if err != nil {
		return nil, badPatch(where, err)
	}
	patch, err := json.Marshal(changes)
	if err != nil {
		return nil, badPatch(where, err)
	}
	merged, err := strategicpatch.StrategicMergePatch(base, patch, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, badPatch(where, err)
	}
	out := &corev1.PodTemplateSpec{}
	if err := kyaml.UnmarshalStrict(merged, out); err != nil {
		return nil, badPatch(where, err)
	}
	keepFirst(out.Spec.Containers, rayContainer(t).Name)
	return out, nil
}

// keepFirst puts the container of this name before all others, which keep their order: a strategic merge puts what a patch adds first, and KubeRay takes the
// first container for Ray's. A patch that removes the container has its own way.
func keepFirst(containers []corev1.Container, name string) {
	if i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name }); i > 0 {
		ours := containers[i]
		copy(containers[1:i+1], containers[:i])
		containers[0] = ours
	}
}

// patchedCluster applies kuberay.patch, a JSON merge patch. The worker list is out of its reach (the cluster file's validation),
// and so are the names by which a cluster is found.
func patchedCluster(rc *rayv1.RayCluster, patch spec.Object) (*rayv1.RayCluster, error) {
	if len(patch) == 0 {
		return rc, nil
	}
	base, err := json.Marshal(rc)
	if err != nil {
		return nil, badPatch("kuberay.patch", err)
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, badPatch("kuberay.patch", err)
	}
	merged, err := jsonpatch.MergePatch(base, text)
	if err != nil {
		return nil, badPatch("kuberay.patch", err)
	}
	out := &rayv1.RayCluster{}
	if err := kyaml.UnmarshalStrict(merged, out); err != nil {
		return nil, badPatch("kuberay.patch", err)
	}
	out.TypeMeta, out.Name, out.Namespace, out.OwnerReferences = rc.TypeMeta, rc.Name, rc.Namespace, rc.OwnerReferences
	out.Spec.WorkerGroupSpecs = rc.Spec.WorkerGroupSpecs
	for k, v := range rc.Labels {
		if out.Labels == nil {
			out.Labels = map[string]string{}
		}
		if k == LabelManagedBy || k == LabelName || k == LabelOwner {
			out.Labels[k] = v
		}
	}
	return out, nil
}
