package kuberay

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/launcher/spec"
)

// fileOf has groups w and fixed.
func fileOf(least, n, most int) *spec.ClusterSpec {
	return &spec.ClusterSpec{Workers: []spec.WorkerGroup{{Name: "w", MinReplicas: &least, Replicas: &n, MaxReplicas: &most}, {Name: "fixed", Replicas: ptr.To(1)}}}
}

// TestSizesBetween: of a changed file the groups whose sizes differ get others, within the bounds of the launch, and what was scaled by hand stays where the file has
// not changed.
func TestSizesBetween(t *testing.T) {
	rc := &rayv1.RayCluster{Spec: rayv1.RayClusterSpec{EnableInTreeAutoscaling: ptr.To(true), WorkerGroupSpecs: []rayv1.WorkerGroupSpec{
		{GroupName: "w", Replicas: ptr.To[int32](2), MinReplicas: ptr.To[int32](2), MaxReplicas: ptr.To[int32](4)}, // scaled by hand
		{GroupName: "fixed", Replicas: ptr.To[int32](1), MinReplicas: ptr.To[int32](1), MaxReplicas: ptr.To[int32](1)},
	}}}
	launched := fileOf(0, 0, 4)
	more := fileOf(0, 0, 4)
	more.Workers[1].Replicas = ptr.To(2)
	for name, c := range map[string]struct {
		was, now *spec.ClusterSpec
		want     string // the new replicas, minReplicas and maxReplicas, or why not
	}{
		"the same":        {launched, fileOf(0, 0, 4), ""},
		"more at once":    {launched, fileOf(1, 3, 4), "3 1 4"},
		"fewer replicas":  {fileOf(0, 3, 4), launched, "2 0 4"},
		"a smaller most":  {launched, fileOf(0, 0, 3), "2 0 3"},
		"back, not known": {nil, launched, "2 0 4"},
		"below the nodes": {launched, fileOf(0, 0, 1), "KubeRay's autoscaler would end those above 1"},
		"out of bounds":   {launched, fileOf(0, 0, 5), "the maximum of group w can be 0 to 4 nodes, and not 5"},
		"not elastic":     {launched, more, "group fixed is not elastic"},
	} {
		got := ""
		patch, err := sizeChange(rc, launched.NodeGroups(), sizeWish{Sizes: sizesBetween(launched.NodeGroups(), c.was, c.now)})
		if err != nil {
			got = err.Error()
		}
		var steps []patchStep
		if err == nil {
			if err := json.Unmarshal(patch, &steps); err != nil {
				t.Fatal(err)
			}
		}
		if len(steps) > 0 {
			got = fmt.Sprint(steps[2].Value, steps[3].Value, steps[4].Value)
		}
		if got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
