package bed

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// GPU is the resource that nodes with GPUs advertise.
const GPU corev1.ResourceName = "nvidia.com/gpu"

// SimulatedTaint keeps real pods off simulated nodes.
var SimulatedTaint = corev1.Taint{Key: "kwok.x-k8s.io/node", Value: "fake", Effect: corev1.TaintEffectNoSchedule}

// advertiseGPUs gives the real node its GPUs; kubelet does not change resources without a device plug-in.
func (b *Bed) advertiseGPUs(ctx context.Context) error {
	client, err := b.client()
	if err != nil {
		return err
	}
	n := strconv.Itoa(b.config.GPUs)
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"capacity": map[corev1.ResourceName]string{GPU: n}, "allocatable": map[corev1.ResourceName]string{GPU: n},
	}})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Nodes().Patch(ctx, NodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("giving the node %s GPUs: %w", n, err)
	}
	return nil
}

// syncSimulated brings the simulated nodes to the configuration.
func (b *Bed) syncSimulated(ctx context.Context) error {
	client, err := b.client()
	if err != nil {
		return err
	}
	if b.config.Simulated.Nodes > 0 {
		if err := b.start(ctx, KWOK, b.kwokCommand()); err != nil {
			return err
		}
	}
	have, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "type=kwok"})
	if err != nil {
		return fmt.Errorf("listing the simulated nodes: %w", err)
	}
	want := b.simulatedNodes()
	for _, node := range have.Items {
		if i := slices.IndexFunc(want, func(n *corev1.Node) bool { return sameNode(n, &node) }); i >= 0 {
			want = slices.Delete(want, i, i+1)
			continue
		}
		if err := client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing simulated node %s: %w", node.Name, err)
		}
	}
	for _, node := range want {
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating simulated node %s: %w", node.Name, err)
		}
	}
	if b.config.Simulated.Nodes == 0 {
		return b.stop(ctx, KWOK)
	}
	return Until(ctx, b.simulatedReady)
}

func sameNode(want, have *corev1.Node) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, GPU} {
		w, h := want.Status.Allocatable[name], have.Status.Allocatable[name]
		if w.Cmp(h) != 0 {
			return false
		}
	}
	return want.Name == have.Name
}

func (b *Bed) simulatedNodes() []*corev1.Node {
	s := b.config.Simulated
	nodes := make([]*corev1.Node, 0, s.Nodes)
	for i := range s.Nodes {
		resources := corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewQuantity(int64(s.CPUs), resource.DecimalSI),
			corev1.ResourceMemory: resource.MustParse("256Gi"),
			corev1.ResourcePods:   resource.MustParse("110"),
			GPU:                   *resource.NewQuantity(int64(s.GPUs), resource.DecimalSI),
		}
		name := fmt.Sprintf("sim%d", i+1)
		nodes = append(nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{"type": "kwok", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
			},
			Spec:   corev1.NodeSpec{Taints: []corev1.Taint{SimulatedTaint}},
			Status: corev1.NodeStatus{Capacity: resources, Allocatable: resources},
		})
	}
	return nodes
}

func (b *Bed) simulatedReady(ctx context.Context) error {
	client, err := b.client()
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "type=kwok"})
	if err != nil {
		return err
	}
	ready := 0
	for _, node := range nodes.Items {
		if slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			ready++
		}
	}
	if ready != b.config.Simulated.Nodes {
		return fmt.Errorf("%d of %d simulated nodes are ready", ready, b.config.Simulated.Nodes)
	}
	return nil
}
