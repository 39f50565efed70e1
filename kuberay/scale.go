package kuberay

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

var _ launcher.Scaler = (*Launcher)(nil)

// scaleTries is how often a size is written, where Ray's autoscaler has changed the group between reading and writing.
const scaleTries = 10

// Scale changes minReplicas, maxReplicas, and replicas where more are to be there, in the RayCluster, which KubeRay and Ray's autoscaler follow, within the cluster file's.
func (l *Launcher) Scale(ctx context.Context, id launcher.ID, size keeper.Scale) ([]runstate.Group, error) {
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
	rc, err = write(ctx, c, rc, groups, resize{Scale: size})
	if err != nil {
		return nil, err
	}
	return sizes(rc, groups), nil
}

// resize is a size, and how many nodes there are to be now; 0: as it is.
type resize struct {
	keeper.Scale
	start int
}

// write gives a group its size, and returns the RayCluster that has it.
func write(ctx context.Context, c *api.Client, rc *rayv1.RayCluster, groups []spec.NodeGroup, size resize) (*rayv1.RayCluster, error) {
	id := launcher.ID(rc.Name)
	for range scaleTries {
		change, err := changeOf(rc, groups, size)
		if err != nil {
			return nil, err
		}
		err = c.PatchCluster(ctx, id, change)
		changed := apierrors.IsInvalid(err) // a test of the patch has failed
		if err != nil && !changed {
			return nil, api.Explain(err, "patch", api.RayClusters.GroupResource().String(), c)
		}
		if rc, err = c.RayCluster(ctx, id); err != nil {
			return nil, err
		}
		if !changed {
			return rc, nil
		}
	}
	return nil, launcher.Fail(runstate.CodeUnreachable, nil, "try again", "the RayCluster %s was changed by others while group %s was to be scaled", id, size.Group)
}

// changeOf is the patch that gives a group its size, or why it cannot have it. groups are those of the launch. It fails if Ray's autoscaler has given the group another number of nodes meanwhile.
func changeOf(rc *rayv1.RayCluster, groups []spec.NodeGroup, size resize) ([]byte, error) {
	i := slices.IndexFunc(groups, func(g spec.NodeGroup) bool { return g.Name == size.Group })
	if i < 0 {
		var names []string
		for _, g := range groups {
			names = append(names, g.Name)
		}
		return nil, notScaled("there is no group %s; there is %s", size.Group, strings.Join(names, ", "))
	}
	g := groups[i]
	at := workerGroup(rc, g.Name)
	if !g.Elastic() || at < 0 || !ptr.Deref(rc.Spec.EnableInTreeAutoscaling, false) {
		return nil, notScaled("group %s is not elastic: it was launched without a larger maxReplicas", g.Name)
	}
	now := groupSize(&rc.Spec.WorkerGroupSpecs[at], g)
	most := ptr.Deref(size.Max, max(now.Max, size.Min))
	switch {
	case size.Min < g.Min || size.Min > g.Max:
		return nil, notScaled("group %s can have %d to %d nodes, and not %d", g.Name, g.Min, g.Max, size.Min)
	case most < size.Min || most > g.Max:
		return nil, notScaled("group %s can have at most %d to %d nodes, and not %d", g.Name, size.Min, g.Max, most)
	case most < now.Wanted && most < now.Max:
		return nil, launcher.Fail(runstate.CodeSpec, nil, fmt.Sprintf("`rayctl scale %s %s=%d` lets those go that nothing uses; then give the smaller number", rc.Name, g.Name, size.Min),
			"group %s has %d nodes: KubeRay's autoscaler would end those above %d with what runs on them", g.Name, now.Wanted, most)
	}
	path := fmt.Sprintf("/spec/workerGroupSpecs/%d/", at)
	return json.Marshal([]map[string]any{
		{"op": "test", "path": path + "groupName", "value": g.Name},
		{"op": "test", "path": path + "replicas", "value": now.Wanted - ofHead(g)},
		{"op": "replace", "path": path + "replicas", "value": max(now.Wanted, size.Min, size.start) - ofHead(g)},
		{"op": "replace", "path": path + "minReplicas", "value": size.Min - ofHead(g)},
		{"op": "replace", "path": path + "maxReplicas", "value": most - ofHead(g)},
	})
}

func notScaled(format string, args ...any) error {
	return launcher.Fail(runstate.CodeSpec, nil, "`rayctl status -v` shows the groups; `up --recreate` makes the cluster anew", format, args...)
}

// workerGroup is the place of a group in the RayCluster; -1: it has none.
func workerGroup(rc *rayv1.RayCluster, name string) int {
	return slices.IndexFunc(rc.Spec.WorkerGroupSpecs, func(w rayv1.WorkerGroupSpec) bool { return w.GroupName == name })
}

// ofHead is how many nodes of a group are not in the RayCluster's group of that name: its first node may be the head.
func ofHead(g spec.NodeGroup) int {
	if g.Head {
		return 1
	}
	return 0
}

// groupSize is a group as the RayCluster has it.
func groupSize(w *rayv1.WorkerGroupSpec, g spec.NodeGroup) runstate.Group {
	least, n := int(ptr.Deref(w.MinReplicas, 0)), int(ptr.Deref(w.Replicas, 0))
	return runstate.Group{
		Name: g.Name, Wanted: n + ofHead(g), GPUs: float64(g.GPUs), Min: least + ofHead(g), Max: int(ptr.Deref(w.MaxReplicas, 0)) + ofHead(g),
	}
}

// sizes are those of the elastic groups.
func sizes(rc *rayv1.RayCluster, groups []spec.NodeGroup) (out []runstate.Group) {
	for _, g := range groups {
		if at := workerGroup(rc, g.Name); at >= 0 && g.Elastic() {
			out = append(out, groupSize(&rc.Spec.WorkerGroupSpecs[at], g))
		}
	}
	return out
}
