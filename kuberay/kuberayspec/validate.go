package kuberayspec

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rayctl/rayctl/launcher/spec"
)

func validate(v *spec.Validator, s *spec.ClusterSpec) {
	c := sectionOf(s)
	v.OneOf("kuberay.scheduler", c.Scheduler, slices.Concat([]string{"auto"}, Schedulers, []string{"none"})...)
	v.OneOf("kuberay.keeper", c.Keeper, "auto", "none")
	v.OneOf("kuberay.imagePullPolicy", c.ImagePullPolicy, "Always", "IfNotPresent", "Never")
	v.FailIf(c.Namespace != "" && len(validation.IsDNS1123Label(c.Namespace)) > 0, "kuberay.namespace", "use lower-case letters, digits and -", "%q is not a namespace", c.Namespace)
	v.FailIf(c.KeeperQueue != "" && len(validation.IsDNS1123Subdomain(c.KeeperQueue)) > 0, "kuberay.keeperQueue", "use the name of a queue of the namespace", "%q cannot be a queue's name", c.KeeperQueue)
	if rc, ok := c.Patch["spec"].(map[string]any); ok {
		_, touches := rc["workerGroupSpecs"]
		v.FailIf(touches, "kuberay.patch.spec.workerGroupSpecs", "use workers[].patch", "a merge patch would replace the whole list of groups")
	}
	for _, k := range slices.Sorted(maps.Keys(c.ConfigMaps)) {
		v.FailIf(len(validation.IsDNS1123Subdomain(k)) > 0, spec.Printable("kuberay.configMaps."+k), "use lower-case letters, digits, - and .", "%q cannot be a ConfigMap's name", k)
	}
	if s.Launcher != Name {
		return
	}
	if c.RayCluster != nil {
		besideRayCluster(v, s)
		return
	}
	if s.Head.Early {
		earlyHead(v, s)
	}
	label, by := wholeBy(s)
	v.FailIf(by != "" && slices.Contains(Schedulers, c.Scheduler), "kuberay.scheduler", "leave it out, or the label "+label, "%s admits a RayCluster as a whole", by)
	gpus := slices.ContainsFunc(s.NodeGroups(), func(g spec.NodeGroup) bool { return g.GPUs > 0 })
	v.FailIf(c.Scheduler == "none" && by == "" && gpus && s.IsGang() && s.GangNodes() > 1, "kuberay.scheduler",
		"leave it out, or set gang: false if the job can use some of the nodes", "%d GPU nodes must start together, and without a gang scheduler some of them may start without the others", s.GangNodes())
}

// earlyHead rejects what keeps a head from being admitted before the workers, and from ending with them.
func earlyHead(v *spec.Validator, s *spec.ClusterSpec) {
	const p = "head.early"
	c := sectionOf(s)
	v.FailIf(!s.IsGang() || c.Scheduler == "none", p, "leave it out, or let a gang scheduler admit the workers (gang, kuberay.scheduler)",
		"on Kubernetes an early head waits for workers that are admitted together, and these come one by one")
	v.FailIf(c.Keeper == "none", p, "leave it out, or kuberay.keeper",
		"without a keeper in Kubernetes nothing ends the head, and the workers that are queued, when this client is lost")
	label, by := wholeBy(s)
	v.FailIf(by != "", p, "leave it out, or the label "+label, "%s admits a RayCluster as a whole, the head together with the workers", by)
}

// inRayCluster are the keys that a given RayCluster sets itself.
var inRayCluster = []struct {
	path  string
	given func(s *spec.ClusterSpec) bool
}{
	{"head", func(s *spec.ClusterSpec) bool { return s.Head.On != "" || s.Head.Early || !s.Head.IsEmpty() }},
	{"workers", func(s *spec.ClusterSpec) bool { return len(s.Workers) > 0 }},
	{"image", func(s *spec.ClusterSpec) bool { return s.Image != "" }},
	{"env", func(s *spec.ClusterSpec) bool { return len(s.Env) > 0 }},
	{"setup", func(s *spec.ClusterSpec) bool { return s.Setup != "" }},
	{"secrets", func(s *spec.ClusterSpec) bool { return len(s.Secrets) > 0 }},
	{"mounts", func(s *spec.ClusterSpec) bool { return len(s.Mounts) > 0 }},
	{"kuberay.nodeSelector", func(s *spec.ClusterSpec) bool { return len(Of(s).NodeSelector) > 0 }},
	{"kuberay.tolerations", func(s *spec.ClusterSpec) bool { return len(Of(s).Tolerations) > 0 }},
	{"kuberay.serviceAccountName", func(s *spec.ClusterSpec) bool { return Of(s).ServiceAccountName != "" }},
}

// besideRayCluster rejects them.
func besideRayCluster(v *spec.Validator, s *spec.ClusterSpec) {
	for _, x := range inRayCluster {
		v.FailIf(x.given(s), x.path, "write it into the RayCluster, or use kuberay.patch", "the RayCluster is taken as it is, so this has no effect")
	}
}

func validateNode(v *spec.Validator, s *spec.ClusterSpec, path string, r *spec.NodeResources) {
	if r.GPUType == "" {
		return
	}
	_, known := s.GPUTypes[r.GPUType]
	v.FailIf(!known, path+".gpuType", "add gpuTypes."+r.GPUType+" with its nodeSelector, best in a profile",
		"gpuTypes has no entry for nodes with %q", r.GPUType)
}
