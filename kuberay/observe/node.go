package observe

import (
	"context"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Node finds the pod of a node: "" is the head, else a pod's name, or <group>-<i> in the order of their making.
func Node(ctx context.Context, c *api.Client, id launcher.ID, name string) (*corev1.Pod, error) {
	list, err := c.Core.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: objects.RayClusterLabel + "=" + string(id)})
	if err != nil {
		return nil, api.Explain(err, "list", "pods", c)
	}
	o := &Snapshot{}
	for i := range list.Items {
		o.Pods = append(o.Pods, &list.Items[i])
	}
	if len(o.Pods) == 0 {
		return nil, launcher.NotFound(id)
	}
	if name == "" {
		if head := o.head(); head != nil {
			return head, nil
		}
	}
	var known []string
	seen := map[string]int{}
	for _, p := range o.rayPods() {
		group := p.Labels[objects.RayGroupLabel]
		if group == objects.HeadGroup {
			group = objects.HeadNodeType
		}
		node := group + "-" + strconv.Itoa(seen[group])
		seen[group]++
		if name == node || name == p.Name {
			return p, nil
		}
		known = append(known, node+" ("+p.Name+")")
	}
	return nil, launcher.Fail(runstate.CodeUsage, nil, "its nodes are: "+strings.Join(known, ", "), "%s has no node %q", id, name)
}
