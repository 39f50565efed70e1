package objects

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"mvdan.cc/sh/v3/syntax"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// RayCluster is the RayCluster of the plan. The keeper's Job owns it, if the plan has the Job's UID.
func (p *Plan) RayCluster() (*rayv1.RayCluster, error) {
	rc := &rayv1.RayCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: rayv1.GroupVersion.String(), Kind: "RayCluster"},
		ObjectMeta: p.meta(p.Spec.Name),
	}
	if p.Resizable != "" {
		rc.Annotations[p.Resizable] = "true"
	}
	for k, v := range kuberayspec.Of(p.Spec).Annotations {
		rc.Annotations[k] = v
	}
	rc.OwnerReferences = p.Owned()
	if p.Adopted != nil {
		p.adoptedCluster(rc)
		return patchedCluster(rc, kuberayspec.Of(p.Spec).Patch)
	}
	rc.Spec.RayVersion = p.version
	if p.hasToken() {
		rc.Spec.AuthOptions = p.authOptions()
	}
	p.Admitter.Mark(rc, p.Spec)
	for _, g := range p.Spec.NodeGroups() {
		if err := p.addGroup(rc, g); err != nil {
			return nil, err
		}
	}
	rc, err := patchedCluster(rc, kuberayspec.Of(p.Spec).Patch)
	if err != nil {
		return nil, err
	}
	fitHostNetwork(&rc.Spec.HeadGroupSpec.Template)
	for i := range rc.Spec.WorkerGroupSpecs {
		fitHostNetwork(&rc.Spec.WorkerGroupSpecs[i].Template)
	}
	return rc, nil
}

// fitHostNetwork gives pods in the network of the host what those with a network of their own have: the names of Services, such as the head's, and their address, by which
// node.sh finds the interface for torch.distributed. It looks at the template after all patches, of which two can set hostNetwork.
func fitHostNetwork(t *corev1.PodTemplateSpec) {
	if !t.Spec.HostNetwork || len(t.Spec.Containers) == 0 {
		return
	}
	t.Spec.DNSPolicy = cmp.Or(t.Spec.DNSPolicy, corev1.DNSClusterFirstWithHostNet) // the API server's default is that of the host
	c := rayContainer(t)
	c.Env = append(c.Env, podIP("RAYCTL_HOST_NETWORK_IP"))
}

// Owned returns the owner reference by which Kubernetes deletes an object with the keeper's Job; none if the Job has no UID yet.
func (p *Plan) Owned() []metav1.OwnerReference {
	if p.OwnerUID == "" {
		return nil
	}
	return []metav1.OwnerReference{{
		APIVersion: "batch/v1", Kind: "Job", Name: p.Spec.Name, UID: p.OwnerUID,
		Controller: ptr.To(false), BlockOwnerDeletion: ptr.To(false), // blocking needs a permission that users may lack
	}}
}

// ownedWhole is Owned for objects that Kubernetes must delete before the Job: clients that wait for the cluster's end watch only the Job.
func (p *Plan) ownedWhole() []metav1.OwnerReference {
	refs := p.Owned()
	for i := range refs {
		refs[i].BlockOwnerDeletion = ptr.To(true)
	}
	return refs
}

// addGroup adds a group's pods: the head, the workers, or both if the head is the group's first worker.
func (p *Plan) addGroup(rc *rayv1.RayCluster, g spec.NodeGroup) error {
	workers := g.Count
	if g.Head {
		template, err := p.podTemplate(g, HeadGroup)
		if err != nil {
			return err
		}
		rc.Spec.HeadGroupSpec = rayv1.HeadGroupSpec{Template: *template, RayStartParams: p.startParams(g, true)}
		workers--
	}
	least, most := max(0, g.Min-(g.Count-workers)), max(0, g.Max-(g.Count-workers))
	if workers == 0 && most == 0 {
		return nil
	}
	template, err := p.podTemplate(g, g.Name)
	if err != nil {
		return err
	}
	rc.Spec.WorkerGroupSpecs = append(rc.Spec.WorkerGroupSpecs, rayv1.WorkerGroupSpec{
		GroupName: g.Name, Replicas: ptr.To(int32(workers)), MinReplicas: ptr.To(int32(least)), MaxReplicas: ptr.To(int32(most)),
		RayStartParams: p.startParams(g, false), Template: *template,
	})
	if least < most {
		rc.Spec.EnableInTreeAutoscaling = ptr.To(true)
		rc.Spec.AutoscalerOptions = p.autoscaler()
	}
	return nil
}

// autoscaler returns the settings by which KubeRay runs Ray's autoscaler in the head's pod.
func (p *Plan) autoscaler() *rayv1.AutoscalerOptions {
	idle := IdleSeconds(p.Spec)
	o := &rayv1.AutoscalerOptions{
		// KubeRay (1.6) gives the autoscaler's container no security context, and namespaces with the profile "restricted" refuse such a container.
		SecurityContext: restrictedContainer(), IdleTimeoutSeconds: &idle,
		// Otherwise the autoscaler keeps a pod that waits for a node although nothing needs the pod any more (Ray 2.60, autoscaler/_private/constants.py).
		Env: []corev1.EnvVar{{Name: PendingIdle, Value: strconv.Itoa(int(idle))}},
	}
	if p.Spec.Head.Early { // the autoscaler replaces a pod in which no Ray runs after an hour; the pods of a queued gang may wait for longer
		o.Env = append(o.Env, corev1.EnvVar{Name: "RAY_AUTOSCALER_RECONCILE_ALLOCATE_STATUS_TIMEOUT_S", Value: strconv.Itoa(int(Longest.Seconds()))})
	}
	if p.rayAtLeast(spec.ElasticRay) { // version 2, as on the other launchers: version 1 removes an idle node even if it has just got a task
		o.Version = ptr.To(rayv1.AutoscalerVersionV2)
	}
	if p.Spec.Scaling.UpscalingSpeed == kuberayspec.ConservativeSpeed {
		o.UpscalingMode = ptr.To(rayv1.UpscalingMode("Conservative"))
	}
	return o
}

// PendingIdle is the variable of the autoscaler that has the seconds after which it deletes a pod that waits for a node and that nothing needs any more.
const PendingIdle = "RAY_AUTOSCALER_PENDING_NODE_IDLE_TIMEOUT_S"

// IdleSeconds is scaling.idle as the RayCluster has it.
func IdleSeconds(s *spec.ClusterSpec) int32 {
	return int32(min(orders.ScalingIdle(s).Seconds(), math.MaxInt32))
}

// HeadGroup is KubeRay's name for the head's group.
const HeadGroup = admit.HeadGroup

// startParams are the options of `ray start`. KubeRay puts them into a shell's command line unquoted.
func (p *Plan) startParams(g spec.NodeGroup, head bool) map[string]string {
	params := map[string]string{
		"num-cpus": strconv.Itoa(int(math.Ceil(float64(max(g.CPUs, 1))))),
		"num-gpus": strconv.Itoa(g.GPUs),
	}
	if g.CPUs > 0 {
		params["num-cpus"] = strconv.Itoa(int(math.Ceil(float64(g.CPUs))))
	}
	if !g.Tasks {
		params["num-cpus"], params["num-gpus"] = "0", "0"
	}
	if head {
		params["dashboard-host"] = "0.0.0.0"
	}
	if p.rayAtLeast("2.49.0") { // a raylet waits 15 seconds for ports that its agents choose, then it dies; KubeRay gives the other two
		params["dashboard-agent-grpc-port"], params["runtime-env-agent-port"] = agentGRPCPort, runtimeEnvPort
	}
	if !g.ObjectStoreMemory.IsZero() {
		params["object-store-memory"] = strconv.FormatInt(g.ObjectStoreMemory.Value(), 10)
	}
	if g.ObjectSpillingDirectory != "" {
		params["object-spilling-directory"] = shellWord(g.ObjectSpillingDirectory)
	}
	if len(g.Resources) > 0 {
		params["resources"] = shellQuote(g.Resources)
	}
	return params
}

// shellQuote writes a value as JSON, quoted for a shell. The validation of the cluster file has refused names that cannot be quoted.
func shellQuote(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("kuberay: a map of numbers has no JSON: " + err.Error()) // impossible: the spec allows finite numbers only
	}
	return shellWord(string(text))
}

func shellWord(text string) string {
	quoted, err := syntax.Quote(text, syntax.LangBash)
	if err != nil {
		return strconv.Quote(text)
	}
	return quoted
}

// rayContainer returns the Ray container of a pod.
func rayContainer(t *corev1.PodTemplateSpec) *corev1.Container { return &t.Spec.Containers[0] }

func badPatch(where string, err error) error {
	return launcher.Fail(runstate.CodeSpec, err, "compare it with `rayctl render`", "%s cannot be applied: %v", where, err)
}

// NeededOf is the number of pods of a worker group for which the start of the cluster waits.
func NeededOf(rc *rayv1.RayCluster, i int) int {
	n, least := admit.Pods(&rc.Spec.WorkerGroupSpecs[i])
	if ptr.Deref(rc.Spec.EnableInTreeAutoscaling, false) {
		return least
	}
	return n
}
