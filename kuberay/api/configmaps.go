package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// CreateConfigMaps creates them. One that another run of the file made is shared: it goes with the last of them. One that the user made
// stays as it is.
func (c *Client) CreateConfigMaps(ctx context.Context, p *objects.Plan, owners []metav1.OwnerReference) error {
	for _, m := range p.ConfigMapsOf(owners) {
		err := c.CreateOnly(ctx, configMaps, m)
		if apierrors.IsAlreadyExists(err) {
			err = c.shareConfigMap(ctx, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) shareConfigMap(ctx context.Context, m *corev1.ConfigMap) error {
	there, err := c.Core.CoreV1().ConfigMaps(c.Namespace).Get(ctx, m.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err): // the run that it belonged to has just ended
		return c.CreateOnly(ctx, configMaps, m)
	case err != nil:
		return Explain(err, "get", "configmaps", c)
	case there.Labels[objects.LabelManagedBy] != objects.ManagedBy:
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
	_, err = c.Core.CoreV1().ConfigMaps(c.Namespace).Patch(ctx, m.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: objects.ManagedBy})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // somebody else came or went
		return c.shareConfigMap(ctx, m)
	}
	return Explain(err, "patch", "configmaps", c)
}
