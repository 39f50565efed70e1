package kuberay

import (
	"context"

	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Scale changes minReplicas, maxReplicas, and replicas where more are to be there, in the RayCluster, which KubeRay and Ray's autoscaler follow, within the
// cluster file's: of all groups in one patch.
func (l *Launcher) Scale(ctx context.Context, id launcher.ID, scales []keeper.Scale) ([]runstate.Group, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	rc, err := c.RayCluster(ctx, id)
	if err != nil {
		return nil, err
	}
	groups, err := c.LaunchedGroups(ctx, string(id))
	if err != nil {
		return nil, err
	}
	var wanted sizeWish
	for _, scale := range scales {
		wanted.Sizes = append(wanted.Sizes, wantedSize{Scale: scale})
	}
	rc, err = writeSizes(ctx, c, rc, groups, wanted)
	if err != nil {
		return nil, err
	}
	return sizesInForce(rc, groups), nil
}

// Resize changes the sizes in the RayCluster as Scale does, and the autoscaler's idle timeout.
func (l *Launcher) Resize(ctx context.Context, id launcher.ID, was, now *spec.ClusterSpec, check bool) error {
	c, err := l.kube(ctx)
	if err != nil {
		return err
	}
	rc, err := c.RayCluster(ctx, id)
	if err != nil {
		return err
	}
	groups, err := c.LaunchedGroups(ctx, string(id))
	if err != nil {
		return err
	}
	wanted := sizeWish{Sizes: sizesBetween(groups, was, now)}
	if autoscaled(rc) && (was == nil || was.Scaling.Idle != now.Scaling.Idle) {
		wanted.Idle = ptr.To(objects.IdleSeconds(now))
	}
	if _, err := sizeChange(rc, groups, wanted); err != nil || check || len(wanted.Sizes) == 0 && wanted.Idle == nil {
		return err
	}
	_, err = writeSizes(ctx, c, rc, groups, wanted)
	return err
}
