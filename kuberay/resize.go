package kuberay

import (
	"context"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
)

var _ launcher.Resizer = (*Launcher)(nil)

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
	wanted := wish{sizes: resizes(groups, was, now)}
	if autoscaled(rc) && (was == nil || was.Scaling.Idle != now.Scaling.Idle) {
		wanted.idle = ptr.To(objects.IdleSeconds(now))
	}
	if _, err := changeOf(rc, groups, wanted); err != nil || check || len(wanted.sizes) == 0 && wanted.idle == nil {
		return err
	}
	_, err = write(ctx, c, rc, groups, wanted)
	return err
}

// resizes are the sizes that differ between two files. If a file has more replicas than before, the number of nodes is raised to them now.
func resizes(groups []spec.NodeGroup, was, now *spec.ClusterSpec) (wanted []resize) {
	var before []spec.NodeGroup
	if was != nil {
		before = was.NodeGroups()
	}
	for _, g := range now.NodeGroups() {
		size := resize{Scale: keeper.Scale{Group: g.Name, Min: g.Min, Max: &g.Max}, start: g.Count}
		if at := slices.IndexFunc(before, func(b spec.NodeGroup) bool { return b.Name == g.Name }); at >= 0 {
			b := before[at]
			if b.Min == g.Min && b.Max == g.Max && b.Count == g.Count {
				continue
			}
			if g.Count <= b.Count {
				size.start = 0
			}
		} else if !slices.ContainsFunc(groups, func(of spec.NodeGroup) bool { return of.Name == g.Name && of.Elastic() }) {
			continue // no size of its own
		}
		wanted = append(wanted, size)
	}
	return wanted
}
