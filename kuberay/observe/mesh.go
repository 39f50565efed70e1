package observe

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// meshRefuses is the reason of a cluster whose head is in a mesh that takes no connections from outside of it, as Istio does with PeerAuthentication STRICT.
const meshRefuses = "MeshRefuses"

// proxies are the containers that meshes add, with the annotation by which a pod is in the mesh.
var proxies = []struct{ container, annotation string }{{"istio-proxy", objects.InIstio}, {"linkerd-proxy", objects.InLinkerd}}

// MeshRefusal is the reason where the head resets the connections of a keeper that is not in the head's mesh; empty where that is not so. While Ray does not
// listen yet a proxy resets them, too: so the head's pod must be ready.
func MeshRefusal(o *Snapshot, st *runstate.State) runstate.Reason {
	head := o.head()
	if st == nil || st.Phase != runstate.Provisioning || st.Reason.Code != runstate.ReasonHeadResets || head == nil || !podReady(head) {
		return runstate.Reason{}
	}
	for _, p := range proxies {
		if !hasContainer(head, p.container) || slices.ContainsFunc(o.Role(objects.RoleKeeper), func(k *corev1.Pod) bool { return hasContainer(k, p.container) }) {
			continue
		}
		return runstate.Reason{
			Code:    meshRefuses,
			Message: fmt.Sprintf("the container %s of the head's pod %s resets the keeper's connections, because the keeper's pod is not in the mesh", p.container, head.Name),
			Hint:    fmt.Sprintf("set %s in kuberay.annotations, so that all pods are in it", p.annotation),
		}
	}
	return runstate.Reason{}
}

// hasContainer also knows native sidecars.
func hasContainer(p *corev1.Pod, name string) bool {
	return slices.ContainsFunc(slices.Concat(p.Spec.Containers, p.Spec.InitContainers), func(c corev1.Container) bool { return c.Name == name })
}
