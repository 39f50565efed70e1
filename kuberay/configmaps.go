package kuberay

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// configMapsOf are the ConfigMaps of the file, which end with what owns the cluster.
func (p *plan) configMapsOf(owners []metav1.OwnerReference) (out []*corev1.ConfigMap) {
	for _, name := range slices.Sorted(maps.Keys(p.spec.KubeRay.ConfigMaps)) {
		m := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: p.meta(name), Data: p.spec.KubeRay.ConfigMaps[name]}
		delete(m.Labels, labelName) // runs of one file share it
		delete(m.Annotations, annotationHash)
		m.OwnerReferences = owners
		out = append(out, m)
	}
	return out
}

// ownedBy is for what several clusters may own.
func ownedBy(rc *rayv1.RayCluster) metav1.OwnerReference {
	ref := *metav1.NewControllerRef(rc, rayv1.GroupVersion.WithKind("RayCluster"))
	ref.Controller, ref.BlockOwnerDeletion = nil, nil
	return ref
}

// createConfigMaps creates them. One that another run of the file made is shared: it goes with the last of them. One that the user made
// stays as it is.
func (c *client) createConfigMaps(ctx context.Context, p *plan, owners []metav1.OwnerReference) error {
	for _, m := range p.configMapsOf(owners) {
		err := c.createOnly(ctx, configMaps, m)
		if apierrors.IsAlreadyExists(err) {
			err = c.shareConfigMap(ctx, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *client) shareConfigMap(ctx context.Context, m *corev1.ConfigMap) error {
	there, err := c.core.CoreV1().ConfigMaps(c.namespace).Get(ctx, m.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err): // the run that it belonged to has just ended
		return c.createOnly(ctx, configMaps, m)
	case err != nil:
		return explain(err, "get", "configmaps", c)
	case there.Labels[labelManagedBy] != managedBy:
		return nil
	case !maps.Equal(there.Data, m.Data):
		return launcher.Fail(runstate.CodeSpec, launcher.ErrConflict, "give it another name, or end the other cluster first",
			"the ConfigMap %s belongs to another cluster, with other content", m.Name)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"ownerReferences": append(there.OwnerReferences, m.OwnerReferences...), "resourceVersion": there.ResourceVersion,
	}})
	if err != nil {
		return fmt.Errorf("encode the owners of %s: %w", m.Name, err)
	}
	_, err = c.core.CoreV1().ConfigMaps(c.namespace).Patch(ctx, m.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: managedBy})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // somebody else came or went
		return c.shareConfigMap(ctx, m)
	}
	return explain(err, "patch", "configmaps", c)
}

// readToken reads Ray's token where the RayCluster names its Secret itself: the keeper needs it.
func (c *client) readToken(ctx context.Context, p *plan) error {
	if p.adopted == nil {
		return nil
	}
	token, err := c.foreignToken(ctx, p.adopted.token)
	if token != "" {
		p.token = token
	}
	return err
}

// foreignToken is the token of a cluster whose Secret is not ours; "" if it has none.
func (c *client) foreignToken(ctx context.Context, source tokenSource) (string, error) {
	if source.secret == "" {
		return source.value, nil
	}
	secret, err := c.core.CoreV1().Secrets(c.namespace).Get(ctx, source.secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", launcher.Fail(runstate.CodeSpec, err, "create it first", "the Secret %s, which holds the token of the RayCluster, does not exist in namespace %s", source.secret, c.namespace)
	}
	if err != nil {
		return "", explain(err, "get", "secrets", c)
	}
	return string(secret.Data[source.key]), nil
}
