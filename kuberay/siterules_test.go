package kuberay_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/pace"
)

// TestSiteRules runs where every pod, the keeper's and the record's too, must have an annotation, a priority class, and limits near its requests; these two
// also a label, and a user that the image does not name; and where the head has another container beside Ray's, which runs as root by the recipe of docs/kuberay.md.
func TestSiteRules(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	class := "rules-" + b.namespace
	b.Create(t, "", `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: `+class+`}, value: 10}`)
	t.Cleanup(func() {
		if err := b.Core.SchedulingV1().PriorityClasses().Delete(context.Background(), class, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	b.policy(t, class, "pods", "has(object.metadata.annotations) && 'team' in object.metadata.annotations && object.spec.priorityClassName == '"+class+"' && "+
		"(!has(object.metadata.labels) || !('rayctl.io/role' in object.metadata.labels) || 'cost' in object.metadata.labels)", "say whose it is")
	b.awaitRefused(t, anyPod(), "say whose it is")
	b.Create(t, b.namespace, `{apiVersion: v1, kind: LimitRange, metadata: {name: near}, spec: {limits: [{type: Container, maxLimitRequestRatio: {cpu: "2", memory: "2"}}]}}`)
	b.awaitRefused(t, anyPod(), "ratio") // is looked at before policies
	b.Create(t, b.namespace, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: limits}, spec: {hard: {limits.cpu: "8", limits.memory: 32Gi}}}`)
	s := job("ruled", "echo under rules as $(id -u)")
	s.Sections = kuberayspec.In(&kuberayspec.Section{PriorityClassName: class, Annotations: map[string]string{"team": "rl"}, KeeperPatch: spec.Object{
		"metadata": map[string]any{"labels": map[string]any{"cost": "small"}}, "spec": map[string]any{"securityContext": map[string]any{"runAsUser": 1001}},
	}})
	root := map[string]any{"runAsNonRoot": false, "runAsUser": 0} // the image of the tests names another user
	s.Head.Sections = kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"securityContext": root, "containers": []any{
		map[string]any{"name": "beside", "image": "rayctl.test/pause:1", "securityContext": map[string]any{"runAsUser": 1000},
			"resources": map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "16Mi"}, "limits": map[string]any{"cpu": "20m", "memory": "32Mi"}}},
		map[string]any{"name": "ray-head", "resources": map[string]any{"limits": map[string]any{"cpu": "400m"}}},
	}}})
	r := b.run(t, b.l, s)
	r.wantEnd(t, "succeeded", 0, "under rules as 0\n")
}
