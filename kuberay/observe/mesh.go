package observe

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// meshRefuses is the reason of a cluster whose head is in a mesh that takes no connections from outside of it, as Istio does with PeerAuthentication STRICT.
const meshRefuses = "MeshRefuses"

const istioProxy, linkerdProxy = "istio-proxy", "linkerd-proxy"

// proxies are the containers that meshes add, with the annotation by which a pod is in the mesh.
var proxies = []struct{ container, annotation string }{{istioProxy, objects.InIstio}, {linkerdProxy, objects.InLinkerd}}

// MeshRefusal is the reason where the head resets the connections of a keeper that is not in the head's mesh; empty where that is not so. While Ray does not
// listen yet a proxy resets them, too: so the head's pod must be ready.
func MeshRefusal(o *Snapshot, st *runstate.State) runstate.Reason {
	head := o.head()
	if st == nil || st.Phase != runstate.Provisioning || st.Reason.Code != runstate.ReasonHeadResets || head == nil || !podReady(head) {
		return runstate.Reason{}
	}
	proxy, hint := NotInMesh(head, o.Role(objects.RoleKeeper)...)
	if proxy == "" {
		return runstate.Reason{}
	}
	return runstate.Reason{
		Code: meshRefuses, Hint: hint,
		Message: fmt.Sprintf("the container %s of the head's pod %s resets the keeper's connections, because the keeper's pod is not in the mesh", proxy, head.Name),
	}
}

// NotInMesh is the mesh's container that the head has and none of the helpers' pods, and what answers that; "" if there is none.
func NotInMesh(head *corev1.Pod, helpers ...*corev1.Pod) (proxy, hint string) {
	for _, p := range proxies {
		if hasContainer(head, p.container) && !slices.ContainsFunc(helpers, func(k *corev1.Pod) bool { return hasContainer(k, p.container) }) {
			return p.container, fmt.Sprintf("set %s in kuberay.annotations, so that all pods are in it", p.annotation)
		}
	}
	return "", ""
}

// Endless names the containers of a helper's pod beside its own that may never end: all but native sidecars and the proxies that keeper and record ask to end
// (keeper/rayctl_keeper/kubernetes/sidecars.py).
func Endless(p *corev1.Pod, own string) (names []string) {
	for _, c := range p.Spec.Containers {
		asked := c.Name == istioProxy || c.Name == linkerdProxy && p.Annotations[objects.LinkerdEnds] == objects.LinkerdEnabled
		if c.Name != own && !asked {
			names = append(names, c.Name)
		}
	}
	return names
}

// Holds says what containers that may never end do to a cluster whose keeper has no account to delete its Job with.
func Holds(names []string) string {
	return fmt.Sprintf("the keeper's pod has other containers (%s): if they do not end by themselves, the cluster and its GPUs stay after the job's end, unless `run`, `up` or `down` watches", strings.Join(names, ", "))
}

// HoldsHint is the next step for that.
const HoldsHint = "set kuberay.keeperServiceAccountName to an account that may delete Jobs, or exclude the keeper's pod from what adds them with kuberay.annotations or kuberay.keeperPatch"

// Endless of the keeper's pods, see there.
func (o *Snapshot) Endless() (names []string) {
	for _, p := range o.Role(objects.RoleKeeper) {
		names = Endless(p, objects.KeeperContainer)
	}
	return names
}

// hasContainer also knows native sidecars.
func hasContainer(p *corev1.Pod, name string) bool {
	return slices.ContainsFunc(slices.Concat(p.Spec.Containers, p.Spec.InitContainers), func(c corev1.Container) bool { return c.Name == name })
}
