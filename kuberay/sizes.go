package kuberay

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// sizeTries is how often a size is written, where Ray's autoscaler has changed the group between reading and writing.
const sizeTries = 10

// sizeWish is what a RayCluster is to become.
type sizeWish struct {
	Sizes []wantedSize
	Idle  *int32 // seconds for which a node above the least is kept while nothing uses it; nil: as it is
}

// wantedSize is the size of a group, and how many nodes there are to be now; 0: as it is.
type wantedSize struct {
	keeper.Scale
	start int
}

// writeSizes changes a RayCluster, all of the wish or nothing, and returns it as it is then.
func writeSizes(ctx context.Context, c *api.Client, rc *rayv1.RayCluster, groups []spec.NodeGroup, w sizeWish) (*rayv1.RayCluster, error) {
	id := launcher.ID(rc.Name)
	for range sizeTries {
		change, err := sizeChange(rc, groups, w)
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
	return nil, launcher.Fail(runstate.CodeUnreachable, nil, "try again", "others changed the RayCluster %s each time rayctl tried to scale its groups", id)
}

// sizeChange is the JSON patch that carries out a wish, or why a group cannot have its size. groups are those of the launch. The patch fails if Ray's autoscaler
// has given a group another number of nodes meanwhile.
func sizeChange(rc *rayv1.RayCluster, groups []spec.NodeGroup, w sizeWish) ([]byte, error) {
	var steps []patchStep
	for _, size := range w.Sizes {
		more, err := sizeSteps(rc, groups, size)
		if err != nil {
			return nil, err
		}
		steps = append(steps, more...)
	}
	if w.Idle != nil {
		steps = append(steps, idleSteps(rc.Spec.AutoscalerOptions, *w.Idle)...)
	}
	return json.Marshal(steps)
}

// patchStep is an operation of a JSON patch.
type patchStep struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func sizeSteps(rc *rayv1.RayCluster, groups []spec.NodeGroup, size wantedSize) ([]patchStep, error) {
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
	if !g.Elastic() || at < 0 || !autoscaled(rc) {
		return nil, notScaled("group %s is not elastic: it was launched without a maxReplicas above minReplicas", g.Name)
	}
	now := groupSize(&rc.Spec.WorkerGroupSpecs[at], g)
	most := ptr.Deref(size.Max, max(now.Max, size.Min))
	switch {
	case size.Min < g.Min || size.Min > g.Max:
		return nil, notScaled("group %s can have %d to %d nodes, and not %d", g.Name, g.Min, g.Max, size.Min)
	case most < size.Min || most > g.Max:
		return nil, notScaled("the maximum of group %s can be %d to %d nodes, and not %d", g.Name, size.Min, g.Max, most)
	case most < now.Wanted && most < now.Max:
		return nil, launcher.Fail(runstate.CodeSpec, nil, fmt.Sprintf("`rayctl scale %s %s=%d` lets those go that nothing uses; then give the smaller number", rc.Name, g.Name, size.Min),
			"group %s has %d nodes: KubeRay's autoscaler would end those above %d with what runs on them", g.Name, now.Wanted, most)
	}
	path := fmt.Sprintf("/spec/workerGroupSpecs/%d/", at)
	return []patchStep{
		{"test", path + "groupName", g.Name},
		{"test", path + "replicas", now.Wanted - ofHead(g)},
		{"replace", path + "replicas", max(now.Wanted, size.Min, size.start) - ofHead(g)},
		{"replace", path + "minReplicas", size.Min - ofHead(g)},
		{"replace", path + "maxReplicas", most - ofHead(g)},
	}, nil
}

// idleSteps change how long nodes that nothing uses are kept. KubeRay's autoscaler reads that from the RayCluster in each of its rounds; the variable, for pods
// that wait for a node, counts from the next pod of the head on.
func idleSteps(o *rayv1.AutoscalerOptions, idle int32) []patchStep {
	const path = "/spec/autoscalerOptions"
	if o == nil {
		return []patchStep{{"add", path, map[string]any{"idleTimeoutSeconds": idle}}}
	}
	steps := []patchStep{{"add", path + "/idleTimeoutSeconds", idle}}
	if at := slices.IndexFunc(o.Env, func(v corev1.EnvVar) bool { return v.Name == objects.PendingIdle }); at >= 0 {
		steps = append(steps, patchStep{"replace", fmt.Sprintf("%s/env/%d", path, at), corev1.EnvVar{Name: objects.PendingIdle, Value: strconv.Itoa(int(idle))}})
	}
	return steps
}

// autoscaled reports whether Ray's autoscaler runs beside the head.
func autoscaled(rc *rayv1.RayCluster) bool { return ptr.Deref(rc.Spec.EnableInTreeAutoscaling, false) }

func notScaled(format string, args ...any) error {
	return launcher.Fail(runstate.CodeSpec, nil, launcher.SizesHint, format, args...)
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

// sizesInForce are the sizes of the elastic groups.
func sizesInForce(rc *rayv1.RayCluster, groups []spec.NodeGroup) (out []runstate.Group) {
	for _, g := range groups {
		if at := workerGroup(rc, g.Name); at >= 0 && g.Elastic() {
			out = append(out, groupSize(&rc.Spec.WorkerGroupSpecs[at], g))
		}
	}
	return out
}

// sizesBetween are the sizes that differ between two files. If a file has more replicas than before, the number of nodes is raised to them now.
func sizesBetween(groups []spec.NodeGroup, was, now *spec.ClusterSpec) (wanted []wantedSize) {
	var before []spec.NodeGroup
	if was != nil {
		before = was.NodeGroups()
	}
	for _, g := range now.NodeGroups() {
		size := wantedSize{Scale: keeper.Scale{Group: g.Name, Min: g.Min, Max: &g.Max}, start: g.Count}
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
